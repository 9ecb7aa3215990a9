"""Arguments that several commands take, spelled once, and how their text becomes values. Imports nothing heavy."""

from __future__ import annotations

import ast
import os
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from catis.core.schedule import Schedule

if TYPE_CHECKING:
    from catis.runs.spec import ModelSpec

AMOUNT = "Patch tokens to remove per block: 13, a share 0.1, one number per block 16,12,8, or r:inflect 8:-1."
INTERRUPTED = 130
"""Exit code of a command that Ctrl-C ended."""
MOST_THREADS = max(64, os.cpu_count() or 1)  # of PyTorch; the machines of a cluster may have more than this one


def group(title: str) -> Any:
    """`typer.Option` for options that `--help` shows together; what everybody needs stands before them, in no group."""
    return partial(typer.Option, rich_help_panel=title)


of_reduction, of_model, of_images = group("Reduction"), group("Model"), group("Images")
of_computing, of_picture, of_results = group("Computing"), group("Picture"), group("Results")

AmountOrNone = Annotated[str | None, typer.Option("-r", metavar="R", help=AMOUNT)]
BUDGET = "Share of the vanilla model's multiply-adds in place of -r: 0.5 is half of them."
Budget = Annotated[float | None, typer.Option("--budget", "-b", metavar="SHARE", help=BUDGET)]
ModelName = Annotated[
    str,
    typer.Argument(help="A timm model, a zoo model such as tiny-12, or a folder that save_pretrained wrote."),
]
MethodName = Annotated[
    str | None,
    typer.Option(
        "--method",
        "-m",
        metavar="NAME",
        help="One that `catis methods` lists; catis by default, with --budget cluster.",
    ),
]
UnlabelledImages = Annotated[
    Path, typer.Option("--data", metavar="DIR", help="Folder of images; labels are not needed.")
]
Options = Annotated[
    list[str] | None,
    of_reduction("--option", metavar="NAME=VALUE", help="Option of the method, such as tau=0.8; may be repeated."),
]
RecipeSource = Annotated[
    str | None,
    of_reduction(
        "--recipe",
        metavar="DIR",
        help="Recipe in place of --method, -r and --option: a folder or file, or a name that `catis recipes` lists.",
    ),
]
Checkpoint = Annotated[
    Path | None, of_model("--checkpoint", metavar="FILE", help="Weights of the model: .safetensors, or .pth.")
]
Pretrained = Annotated[
    bool | None,
    of_model(
        "--pretrained/--no-pretrained",
        help="Take timm's own weights from the hub, or random ones; by default they are fetched where no others are "
        "given and the answer depends on them.",
        show_default=False,
    ),
]
ImageSize = Annotated[
    int | None, of_model("--img-size", min=1, metavar="N", help="Side of the input; by default the model's.")
]
ModelKwargs = Annotated[
    list[str] | None,
    of_model(
        "--model-kwargs",
        metavar="NAME=VALUE",
        help="Setting of timm.create_model, such as global_pool=avg; may be repeated. Classes follow the checkpoint.",
    ),
]
CropShare = Annotated[
    float | None,
    of_model("--crop-pct", min=0.01, max=1.0, help="Share that the centre crop keeps; by default the model's."),
]
Limit = Annotated[
    int | None,
    of_images("--limit", "-n", min=1, metavar="N", help="Use this many images of each set, spread evenly."),
]
Workers = Annotated[int, of_computing("--workers", "-j", min=1, metavar="N", help="Threads that decode images.")]
Device = Annotated[
    str | None, of_computing("--device", metavar="NAME", help="cpu, cuda or cuda:1; by default CUDA if there is one.")
]
BatchSize = Annotated[int, of_computing("--batch-size", min=1, metavar="N", help="Images per batch.")]
Seed = Annotated[int, of_computing("--seed", min=0, metavar="N", help="Seed of everything random.")]
Threads = Annotated[
    int | None,
    of_computing("--threads", min=1, max=MOST_THREADS, metavar="N", help="Threads of PyTorch on the CPU."),
]
Store = Annotated[
    Path | None, of_results("--store", metavar="DIR", help="Results store: records and predictions of every run.")
]
Cache = Annotated[
    Path | None, of_computing("--cache", metavar="DIR", help="Folder of prepared images; by default $CATIS_CACHE.")
]
CacheLimit = Annotated[
    float, of_computing("--cache-limit", min=0.0, metavar="GB", help="Most that the cache may take.")
]


def output_option(help_line: str, *aliases: str, metavar: str = "FILE") -> Any:
    """The option for what a command writes: `-o`, `--output`, and the names it had before."""
    return typer.Option("--output", "-o", *aliases, metavar=metavar, help=help_line)


def given_amount(r: str | None, budget: float | None) -> Schedule | None:
    """The amount that -r or --budget spell; None where neither was given.

    Example:
        >>> str(given_amount("13", None)), str(given_amount(None, 0.5)), given_amount(None, None)
        ('13', 'budget=0.5', None)
    """
    if r is not None and budget is not None:
        raise ValueError(f"-r {r} and --budget {budget:g}: one of them says how many tokens go; drop the other")
    if budget is not None:
        return Schedule.of_budget(budget)
    return None if r is None else Schedule.from_text(r)


def fetches_weights(model: str, checkpoint: Path | None, pretrained: bool | None) -> bool:
    """Whether timm's weights are taken from the hub: as asked, or else where no other weights are given.

    Example:
        >>> fetches_weights("vit_small_patch16_224", None, None), fetches_weights("tiny-12", None, None)
        (True, False)
    """
    from catis.models import is_zoo_model

    if pretrained is not None:
        return pretrained
    return checkpoint is None and not is_zoo_model(model) and not Path(model).is_dir()


def model_settings(texts: list[str] | None, img_size: int | None = None) -> dict[str, Any]:
    """What goes to timm.create_model.

    Example:
        >>> model_settings(["global_pool=avg"], 384)
        {'global_pool': 'avg', 'img_size': 384}
    """
    return {**parse_options(texts, "--model-kwargs"), **({} if img_size is None else {"img_size": img_size})}


def model_spec(
    model: str, checkpoint: Path | None, pretrained: bool | None, kwargs: list[str] | None, *others: Any
) -> ModelSpec:
    """A model as a run names it; `others` are the size of its input and how images are prepared for it."""
    from catis.runs.spec import ModelSpec

    weights, fetched = None if checkpoint is None else str(checkpoint), fetches_weights(model, checkpoint, pretrained)
    return ModelSpec(model, weights, fetched, model_settings(kwargs), *others)


def parse_options(texts: list[str] | None, flag: str = "--option") -> dict[str, Any]:
    """NAME=VALUE pairs; a value that is no Python literal is a string.

    Example:
        >>> parse_options(["tau=0.8", "strategy=evict"])
        {'tau': 0.8, 'strategy': 'evict'}
    """
    options: dict[str, Any] = {}
    for text in texts or []:
        name, equals, value = text.partition("=")
        if not (equals and name.isidentifier()):
            example = "global_pool=avg" if flag == "--model-kwargs" else "tau=0.8"
            raise ValueError(f"{flag} {text}: expected NAME=VALUE, such as {example}")
        if name in options:
            raise ValueError(f"{flag} {name} was given twice")
        options[name] = _literal(value)
    return options


def _literal(text: str) -> Any:
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text
