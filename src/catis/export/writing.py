"""From a reduced model to the files that somebody runs: ONNX, OpenVINO, float or int8, all or nothing."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from torch import nn

from catis import hosts
from catis.errors import require
from catis.export.contract import contract, put_into_onnx, write_contract
from catis.export.disk import check_room, saving
from catis.export.held_out import Split
from catis.export.int8 import ONNX_RUNTIME, OPENVINO, Agreement, Judge
from catis.export.onnx_file import scratch_beside, write_checked
from catis.export.report import ExportReport
from catis.files import commit

Tell = Callable[[str], None]


@dataclass(frozen=True)
class Wanted:
    """What to write, and how strictly to check it."""

    onnx: Path | None = None  # ONNX file; None for none
    ir: Path | None = None  # OpenVINO model, an .xml with a .bin beside it; None for none
    batch: int | None = None  # fixed batch size; None where it is free
    tolerance: float = 1e-4  # largest absolute difference of a float file from PyTorch
    openvino: bool = False  # check in OpenVINO as well
    images: Split | None = None  # for int8, to calibrate on and to judge by; None for float files
    max_drop: float = 2.0  # most points of agreement that int8 may lose


def require_tools(onnx: bool, ir: bool, openvino: bool, int8: bool) -> None:
    """Raise MissingExtraError for what is not installed, before anything is loaded."""
    if onnx or ir:
        require("ONNX export", "export", "onnx", "onnxscript", "onnxruntime")
    if openvino or ir:
        require("OpenVINO", "openvino", "openvino")
    if ir and int8:
        require("int8 for OpenVINO", "openvino", "nncf")


def deploy(
    model: nn.Module, wanted: Wanted, tell: Tell = lambda what: None
) -> Iterator[tuple[ExportReport, Agreement | None]]:
    """Write the files that are wanted, each checked before it is put in its place, with a JSON file beside it.

    Args:
        model: A reduced model, or a vanilla one, in eval mode.
        wanted: What to write.
        tell: Told what is going on.

    Yields:
        What each file was checked against, and for int8 its agreement with vanilla.

    Raises:
        ExportMismatchError: A float file does not compute what PyTorch computes.
        AgreementError: int8 loses too much.
    """
    first = wanted.onnx or wanted.ir
    assert first is not None
    shape = None if wanted.batch is None else hosts.find(model).example_shape(wanted.batch)
    for target in (wanted.onnx, wanted.ir):
        if target is not None:
            check_room(model, target.parent)
    with scratch_beside(first) as folder:
        tell("exporting")
        float_file = folder / "float.onnx"
        uses_openvino = wanted.openvino or wanted.ir is not None
        report = write_checked(model, float_file, shape, wanted.batch is None, wanted.tolerance, uses_openvino)
        judge = None if wanted.images is None else Judge(model, float_file, wanted.images, folder, wanted.batch, tell)
        for target, make in ((wanted.onnx, _onnx), (wanted.ir, _openvino)):
            if target is not None:
                agreement = make(model, wanted, report, judge, target)
                write_contract(target, model, report)
                yield replace(report, path=target), agreement


def _onnx(
    model: nn.Module, wanted: Wanted, report: ExportReport, judge: Judge | None, target: Path
) -> Agreement | None:
    with scratch_beside(target) as folder:
        made, agreement = folder / "made.onnx", None
        if judge is None:
            made.write_bytes(report.path.read_bytes())
        else:
            agreement = judge.judge(made, ONNX_RUNTIME, wanted.max_drop)
            put_into_onnx(made, contract(model, report.input_shape, report.dynamic_batch, report.output))
        commit(made, target)
    return agreement


def _openvino(
    model: nn.Module, wanted: Wanted, report: ExportReport, judge: Judge | None, target: Path
) -> Agreement | None:
    openvino: Any = importlib.import_module("openvino")
    with scratch_beside(target) as folder:
        made, agreement = folder / "made.xml", None
        if judge is None:
            with saving("the OpenVINO model", target.parent):
                openvino.save_model(openvino.Core().read_model(report.path), made, compress_to_fp16=False)
        else:
            agreement = judge.judge(made, OPENVINO, wanted.max_drop)
        commit(made.with_suffix(".bin"), target.with_suffix(".bin"))  # weights first: the .xml says that it is there
        commit(made, target)
    return agreement
