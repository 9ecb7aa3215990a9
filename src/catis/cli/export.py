"""`catis export`: a reduced model as ONNX, OpenVINO or torch.export file, checked before it says done."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from rich.console import Console

from catis.cli import arguments as shared
from catis.cli.export_lines import show_agreement, show_file
from catis.cli.progress import progress_bar
from catis.files import check_folder, check_writable

if TYPE_CHECKING:
    from torch import nn

    from catis.export import Split
    from catis.recipes import Recipe

Layout = Literal["triton", "ovms"]
of_int8, of_server, of_check = shared.group("int8"), shared.group("Server"), shared.group("Check")


def export_command(
    model: shared.ModelName,
    output: Annotated[
        Path | None,
        shared.output_option("File to write; its ending says what: .onnx, .xml for OpenVINO, .pt2 for torch.export."),
    ] = None,
    onnx: Annotated[Path | None, typer.Option("--onnx", metavar="FILE", help="ONNX file to write.")] = None,
    ir: Annotated[
        Path | None, typer.Option("--ir", metavar="FILE", help="OpenVINO model (.xml, with a .bin beside it) to write.")
    ] = None,
    program: Annotated[
        Path | None, typer.Option("--program", metavar="FILE", help="torch.export program (.pt2) to write.")
    ] = None,
    method: shared.MethodName = None,
    r: shared.AmountOrNone = None,
    budget: shared.Budget = None,
    option: shared.Options = None,
    recipe: shared.RecipeSource = None,
    checkpoint: shared.Checkpoint = None,
    pretrained: Annotated[
        bool | None,
        typer.Option(
            "--pretrained/--no-pretrained",
            " /--random-weights",
            help="Take timm's own weights from the hub, as by default, or random ones, for shapes and speed.",
            show_default=False,
        ),
    ] = None,
    img_size: shared.ImageSize = None,
    model_kwargs: shared.ModelKwargs = None,
    batch: Annotated[
        int | None, typer.Option("--batch", min=1, metavar="N", help="Fix the batch size; free by default.")
    ] = None,
    int8: Annotated[
        bool,
        of_int8("--int8", help="Products with weights in int8, calibrated on --data and judged on the rest of it."),
    ] = False,
    data: Annotated[
        Path | None,
        of_int8("--data", metavar="DIR", help="Folder of images, without labels, such as the model will see."),
    ] = None,
    limit: Annotated[
        int | None, of_int8("--limit", "-n", min=2, metavar="N", help="Use this many images of it, spread evenly.")
    ] = None,
    max_drop: Annotated[
        float,
        of_int8(min=0.0, max=100.0, metavar="POINTS", help="Most agreement with vanilla that int8 may cost the file."),
    ] = 2.0,
    layout: Annotated[
        Layout | None, of_server("--layout", help="Also write a model repository for Triton or OpenVINO Model Server.")
    ] = None,
    repository: Annotated[
        Path | None, of_server("--repository", metavar="DIR", help="Its folder; beside the file by default.")
    ] = None,
    openvino: Annotated[bool, of_check("--openvino", help="Check the ONNX file in OpenVINO as well.")] = False,
    tolerance: Annotated[
        float, of_check(min=0.0, help="Largest difference of a float file from PyTorch that is allowed.")
    ] = 1e-4,
) -> None:
    """Export a reduced model; no file is written unless it computes what PyTorch computes.

    int8 is the runtime makers' own: ONNX Runtime's for --onnx, NNCF's for --ir. Layer norms, softmax and all that
    chooses tokens stay float.

    Example: catis export deit_small_patch16_224 --budget 0.5 -o deit-s.onnx --int8 --data photos
    """
    if output is not None:
        onnx, ir, program = _with_output(output, onnx, ir, program)
    _check_wishes(onnx, ir, program, int8, data, layout, repository)
    amount, options = shared.given_amount(r, budget), shared.parse_options(option)

    from catis.api import apply, wanted_recipe
    from catis.export import require_tools
    from catis.models import load_model
    from catis.recipes import save_recipe

    require_tools(onnx is not None, ir is not None, openvino, int8)
    chosen = wanted_recipe(method, r=amount, recipe=recipe, **options)
    fetched = shared.fetches_weights(model, checkpoint, pretrained)
    net = load_model(model, checkpoint, fetched, **shared.model_settings(model_kwargs, img_size)).eval()
    _check_room(net, batch, onnx, ir, program)
    console = Console()
    split = None if data is None else _read(data, net, limit, chosen, console)
    apply(net, recipe=chosen)
    if program is not None:
        _program(net, program, batch, tolerance, console)
    if onnx is not None or ir is not None:
        wanted = {"onnx": onnx, "ir": ir, "batch": batch, "tolerance": tolerance, "openvino": openvino}
        _deploy(net, {**wanted, "images": split, "max_drop": max_drop}, layout, repository, console)
    beside = (onnx or ir or program or Path()).with_suffix(".recipe.json")
    console.print(f"recipe beside it: {save_recipe(net, beside, chosen.made)}", highlight=False, soft_wrap=True)


def _with_output(
    output: Path, onnx: Path | None, ir: Path | None, program: Path | None
) -> tuple[Path | None, Path | None, Path | None]:
    """The files of --onnx, --ir and --program, and among them the one that -o names."""
    files = {".onnx": onnx, ".xml": ir, ".pt2": program}
    kind = output.suffix.lower()
    if kind not in files:
        raise ValueError(f"-o {output}: expected a name that ends in {', '.join(files)}, which says what to write")
    if files[kind] is not None:
        raise ValueError(f"-o {output} and {files[kind]}: two names for one {kind} file; drop one")
    files[kind] = output
    return files[".onnx"], files[".xml"], files[".pt2"]


def _check_wishes(
    onnx: Path | None,
    ir: Path | None,
    program: Path | None,
    int8: bool,
    data: Path | None,
    layout: str | None,
    repository: Path | None,
) -> None:
    """Refuse what cannot be done, or means nothing, before anything is imported."""
    if onnx is None and program is None and ir is None:
        raise ValueError(
            "nothing to write: give -o FILE (.onnx, .xml or .pt2), or --onnx, --ir and --program FILE for several"
        )
    for file, endings in ((onnx, (".onnx",)), (ir, (".xml",)), (program, ())):
        if file is not None:
            check_writable(file, *endings)
    if int8 != (data is not None):
        given, missing = ("--int8", "--data DIR, images to calibrate on") if int8 else ("--data", "--int8")
        raise ValueError(f"{given} was given without {missing}")
    if int8 and onnx is None and ir is None:
        raise ValueError("--int8 is for --onnx and --ir: a torch.export program stays float")
    if repository is not None and layout is None:
        raise ValueError("--repository was given without --layout triton or --layout ovms")
    if layout is not None and onnx is None and ir is None:
        raise ValueError(f"--layout {layout} needs --onnx FILE or --ir FILE")
    if repository is not None:
        check_folder(repository)


def _check_room(net: nn.Module, batch: int | None, *files: Path | None) -> None:
    """Refuse what would not fit into memory or onto the disk."""
    from catis.export.disk import check_room
    from catis.export.memory import check_batch

    if batch is not None:
        check_batch(net, batch)
    for file in files:
        if file is not None:
            check_room(net, file.parent)


def _read(data: Path, net: nn.Module, limit: int | None, chosen: Recipe, console: Console) -> Split:
    """The images of int8, prepared and split."""
    from catis import hosts
    from catis.data.images import ImageFolder
    from catis.export import split_images

    folder = ImageFolder(data, hosts.find(net).preprocessing(), limit)
    with progress_bar(console) as bar:
        task = bar.add_task("reading images", total=float(len(folder)))
        split = split_images(folder, progress=lambda done, total: bar.update(task, completed=done))
    for broken in split.broken:
        console.print(f"[yellow]left out:[/yellow] {broken.name}: {broken.reason}", highlight=False)
    said = f"int8: calibrated on {len(split.calibration)} images of {data}, judged on {len(split.held_out)} others"
    console.print(said, highlight=False, soft_wrap=True)
    if chosen.made is not None and chosen.made.n_images:
        asked = f"the recipe was chosen on {chosen.made.n_images} images; if they are among these, it looks too good"
        console.print(f"[yellow]note:[/yellow] {asked}", highlight=False, soft_wrap=True)
    return split


def _program(net: nn.Module, program: Path, batch: int | None, tolerance: float, console: Console) -> None:
    from catis import hosts
    from catis.export import save_program

    shape = None if batch is None else hosts.find(net).example_shape(batch)
    show_file(save_program(net, program, input_shape=shape, dynamic_batch=batch is None, tolerance=tolerance), console)


def _deploy(
    net: nn.Module, wanted: dict[str, Any], layout: Layout | None, repository: Path | None, console: Console
) -> None:
    from catis import hosts
    from catis.export import Wanted, deploy, write_layout

    with console.status("exporting") as status:
        for report, agreement in deploy(net, Wanted(**wanted), lambda what: status.update(what)):
            if agreement is not None:
                show_agreement(agreement, console)
            show_file(report, console)
            if layout is not None:
                place = repository or report.path.with_name(f"{report.path.stem}_{layout}")
                model = write_layout(layout, place, report.path, hosts.find(net).num_classes)
                console.print(f"{layout} model: {model}", highlight=False, soft_wrap=True)
