"""`catis show`: a picture of what happens to the patches of an image."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer
from rich.console import Console

from catis.cli import arguments as shared
from catis.core.schedule import Schedule
from catis.files import check_writable


def show_command(
    images: Annotated[
        list[Path], typer.Argument(metavar="IMAGE...", help="Image files, or folders for a contact sheet.")
    ],
    model: Annotated[
        str,
        typer.Option("--model", metavar="NAME", help="A timm or zoo model, or a transformers folder."),
    ],
    r: shared.AmountOrNone = None,
    budget: shared.Budget = None,
    method: shared.MethodName = None,
    option: shared.Options = None,
    recipe: shared.RecipeSource = None,
    checkpoint: shared.Checkpoint = None,
    pretrained: shared.Pretrained = None,
    img_size: shared.ImageSize = None,
    model_kwargs: shared.ModelKwargs = None,
    after: Annotated[
        str,
        shared.of_picture(
            metavar="BLOCKS", help="Draw after these blocks, such as 3,6,9; default: quarters of the depth."
        ),
    ] = "",
    heat_maps: Annotated[bool, shared.of_picture(help="Also draw what the method went by.")] = True,
    evicted: Annotated[
        Literal["dim", "white", "black"], shared.of_picture(help="How evicted patches look; white is the paper's.")
    ] = "dim",
    limit: Annotated[
        int, shared.of_picture("--limit", "-n", min=1, metavar="N", help="Images to take of each folder.")
    ] = 24,
    output: Annotated[
        Path, shared.output_option("File to write: .png, .svg, or .gif with the blocks as frames.", "--out")
    ] = Path("catis.png"),
) -> None:
    """Draw which patches merge and which are evicted over the depth of a model, and name the class before and after.

    Without -r, 11 patch tokens are removed in every block.

    Example: catis show photo.png --model tiny-12 -r 11 -o figure.png

    A moving picture, block by block: catis show photo.png --model tiny-12 -o figure.gif. A contact sheet of a folder:
    catis show photos/ --model tiny-12 -o sheet.png.
    """
    amount, options, blocks = shared.given_amount(r, budget), shared.parse_options(option), _parse_blocks(after)
    check_writable(output, ".png", ".svg", ".gif")

    from catis.api import wanted_recipe
    from catis.models import is_zoo_model, load_model
    from catis.pictures.classes import name_classes
    from catis.pictures.drawing import Look
    from catis.pictures.files import choose_files, trace_files, write_figures

    console = Console(highlight=False, soft_wrap=True)
    chosen = choose_files(images, limit)
    usual = Schedule(11) if recipe is None else None
    wanted = wanted_recipe(method, r=amount or usual, recipe=recipe, **options)
    fetched = shared.fetches_weights(model, checkpoint, pretrained)
    net = load_model(model, checkpoint, fetched, **shared.model_settings(model_kwargs, img_size))
    seen = trace_files(net, chosen, wanted, name_classes(net))
    if not fetched and checkpoint is None and not is_zoo_model(model) and not Path(model).is_dir():
        console.print(f"[yellow]note:[/yellow] {model} has random weights; add --checkpoint FILE or --pretrained")
    for broken in seen.broken:
        console.print(f"left out {broken.name}: {broken.reason}", markup=False)
    seen.traced.table(f"{model}, {wanted.reduction}, {len(seen.captions)} image(s)").print(console)
    write_figures(seen, output, blocks, Look(heat_maps, evicted), on_sheet=chosen.on_sheet)
    console.print("\n".join([*seen.captions, f"wrote {output}"]), markup=False)


def _parse_blocks(text: str) -> list[int] | None:
    """Block numbers, counted from 1; None where none were named.

    Example:
        >>> _parse_blocks("3,6"), _parse_blocks("")
        ([3, 6], None)
    """
    numbers = [int(part) for part in text.split(",") if part.strip().isdecimal()]
    if text and (len(numbers) != text.count(",") + 1 or min(numbers) < 1):
        raise ValueError(f"--after {text}: expected numbers of blocks, counted from 1, such as 3,6,9,12")
    return numbers or None
