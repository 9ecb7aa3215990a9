"""`catis export`: a reduced model as an ONNX file or a torch.export program, checked before it says done."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from catis.cli.arguments import (
    AmountOrNone,
    Budget,
    Checkpoint,
    ModelName,
    Options,
    RecipeSource,
    fetches_weights,
    given_amount,
    parse_options,
)
from catis.files import check_writable

if TYPE_CHECKING:
    from torch import nn

    from catis.export import ExportReport

__all__ = ["export_command"]


def export_command(
    model: ModelName,
    onnx: Annotated[Path | None, typer.Option("--onnx", metavar="FILE", help="ONNX file to write.")] = None,
    program: Annotated[
        Path | None, typer.Option("--program", metavar="FILE", help="torch.export program (.pt2) to write.")
    ] = None,
    method: Annotated[str | None, typer.Option("--method", "-m", help="Method; catis by default.")] = None,
    r: AmountOrNone = None,
    budget: Budget = None,
    option: Options = None,
    recipe: RecipeSource = None,
    checkpoint: Checkpoint = None,
    pretrained: Annotated[
        bool | None,
        typer.Option(
            "--pretrained/--no-pretrained",
            " /--random-weights",
            help="Take timm's own weights from the hub, as by default, or random ones, for shapes and speed.",
            show_default=False,
        ),
    ] = None,
    batch: Annotated[
        int | None, typer.Option("--batch", min=1, metavar="N", help="Fix the batch size; free by default.")
    ] = None,
    openvino: Annotated[bool, typer.Option("--openvino", help="Check the ONNX file in OpenVINO as well.")] = False,
    tolerance: Annotated[float, typer.Option(min=0.0, help="Largest difference from PyTorch that is allowed.")] = 1e-4,
) -> None:
    """Export a reduced model; nothing is written unless it computes what PyTorch computes.

    Example: catis export deit_small_patch16_224 -r 13 --onnx deit-s.onnx
    """
    if onnx is None and program is None:
        raise ValueError("nothing to write: give --onnx FILE, --program FILE, or both")
    for file in (onnx, program):
        if file is not None:
            check_writable(file)
    amount, options = given_amount(r, budget), parse_options(option)

    from catis.api import apply, wanted_recipe
    from catis.models import load_model

    wanted = wanted_recipe(method, r=amount, recipe=recipe, **options)
    net = load_model(model, checkpoint, fetches_weights(model, checkpoint, pretrained)).eval()
    _export(apply(net, recipe=wanted), onnx, program, batch, tolerance, openvino, Console())


def _export(
    net: nn.Module,
    onnx: Path | None,
    program: Path | None,
    batch: int | None,
    tolerance: float,
    openvino: bool,
    console: Console,
) -> None:
    from catis import hosts
    from catis.export import export_onnx, save_program
    from catis.recipes import save_recipe

    shape = None if batch is None else hosts.find(net).example_shape(batch)
    if program is not None:
        _say(save_program(net, program, input_shape=shape, dynamic_batch=batch is None, tolerance=tolerance), console)
    if onnx is not None:
        report = export_onnx(
            net, onnx, input_shape=shape, dynamic_batch=batch is None, tolerance=tolerance, openvino=openvino
        )
        _say(report, console)
    beside = (onnx or program or Path()).with_suffix(".recipe.json")
    console.print(f"recipe beside it: {save_recipe(net, beside)}", highlight=False, soft_wrap=True)


def _say(report: ExportReport, console: Console) -> None:
    for found in report.comparisons:
        line = f"  {found.runtime}, batch {found.batch}: differs from PyTorch by {found.difference:.1e}"
        console.print(line, highlight=False)
    shape = ", ".join(map(str, ("batch" if report.dynamic_batch else report.input_shape[0], *report.input_shape[1:])))
    console.print(f"done: {report.path}, pixel_values ({shape}) -> {report.output}", highlight=False, soft_wrap=True)
