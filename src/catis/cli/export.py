"""`catis export`: a reduced model as an ONNX file or a torch.export program, checked before it says done."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import timm
import typer
from rich.console import Console
from torch import nn

from catis import hosts
from catis.api import apply
from catis.cli.arguments import parse_amount
from catis.cli.diagnose import load_model
from catis.export import ExportReport, export_onnx, save_program
from catis.recipe import save_recipe

__all__ = ["export_command", "load_any"]


def export_command(
    model: Annotated[str, typer.Argument(help="timm or zoo model name, or a directory that save_pretrained wrote")],
    onnx: Annotated[Path | None, typer.Option("--onnx", help="ONNX file to write")] = None,
    program: Annotated[Path | None, typer.Option("--program", help="torch.export program (.pt2) to write")] = None,
    method: Annotated[str | None, typer.Option("--method", "-m", help="method; catis by default")] = None,
    r: Annotated[str | None, typer.Option("-r", help="tokens per block, as elsewhere; 0: the plain model")] = None,
    recipe: Annotated[Path | None, typer.Option(help="recipe file in place of --method and -r")] = None,
    checkpoint: Annotated[Path | None, typer.Option(help="weights, .safetensors; without it timm's pretrained")] = None,
    random_weights: Annotated[bool, typer.Option("--random-weights", help="no weights: for shapes and speed")] = False,
    batch: Annotated[int | None, typer.Option("--batch", min=1, help="fix the batch size; free by default")] = None,
    openvino: Annotated[bool, typer.Option("--openvino", help="check the ONNX file in OpenVINO as well")] = False,
    tolerance: Annotated[float, typer.Option(min=0.0, help="largest difference from PyTorch allowed")] = 1e-4,
) -> None:
    """Export a reduced model; nothing is written unless it computes what PyTorch computes."""
    if onnx is None and program is None:
        raise ValueError("nothing to write: give --onnx FILE, --program FILE, or both")
    net = load_any(model, checkpoint, random_weights)
    apply(net, method, r=None if r is None else parse_amount(r), recipe=recipe)
    _export(net, onnx, program, batch, tolerance, openvino, Console())


def load_any(name: str, checkpoint: Path | None, random_weights: bool) -> nn.Module:
    """A model in eval mode, as `catis.models.load_model` gives it; timm's also with random weights."""
    if random_weights and timm.is_model(name):
        net: nn.Module = timm.create_model(name)
        return net.eval()
    return load_model(name, checkpoint)[0].eval()


def _export(
    net: nn.Module,
    onnx: Path | None,
    program: Path | None,
    batch: int | None,
    tolerance: float,
    openvino: bool,
    console: Console,
) -> None:
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
