"""An ONNX file of a model by the dynamo exporter, checked in ONNX Runtime (and OpenVINO on request)."""

from __future__ import annotations

import importlib
import tempfile
import warnings
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from catis import hosts
from catis.errors import require
from catis.export.check import Runner, check, default_batches
from catis.export.contract import INPUT, contract, put_into_onnx, write_contract
from catis.export.decompose import in_few_nodes
from catis.export.disk import check_room
from catis.export.program import OneOutput, export_program, one_output
from catis.export.report import ExportReport
from catis.export.runtimes import openvino_runner, ort_runner
from catis.files import commit

OPSET = 20
"""First opset with Gelu; LayerNormalization came with 17. ONNX Runtime, OpenVINO and TensorRT 10 read it."""
_ANY_SIZE = 2**40


def export_onnx(
    model: nn.Module,
    path: str | Path,
    *,
    input_shape: tuple[int, ...] | None = None,
    dynamic_batch: bool = True,
    tolerance: float = 1e-4,
    openvino: bool = False,
) -> ExportReport:
    """Write an ONNX file and compare it with PyTorch on several batches; no file if they differ.

    Preprocessing, labels and recipe are in the file's metadata, and in a JSON file beside it.

    Args:
        model: A reduced model, or a vanilla one, in eval mode.
        path: The file to write.
        input_shape: Shape of an input, batch first; the model's own by default.
        dynamic_batch: Take any batch size; otherwise only that of `input_shape`.
        tolerance: Largest absolute difference allowed.
        openvino: Check in OpenVINO as well.

    Raises:
        MissingExtraError: ONNX packages are not installed.
        ExportMismatchError: A runtime does not compute what PyTorch computes.
    """
    path = Path(path)
    check_room(model, path.parent)
    with scratch_beside(path) as folder:
        written = folder / "model.onnx"
        report = write_checked(model, written, input_shape, dynamic_batch, tolerance, openvino)
        commit(written, path)
        write_contract(path, model, report)
    return replace(report, path=path)


def write_checked(
    model: nn.Module,
    path: Path,
    input_shape: tuple[int, ...] | None,
    dynamic_batch: bool,
    tolerance: float,
    openvino: bool,
) -> ExportReport:
    """Write an ONNX file that knows its preprocessing and labels, and compare it with PyTorch."""
    require("ONNX export", "export", "onnx", "onnxscript", "onnxruntime")
    if openvino:
        require("the OpenVINO check", "openvino", "openvino")
    _refuse_max(model)
    wrapped, shape = convert(model, path, input_shape, dynamic_batch)
    comparisons = check(wrapped, _runners(path, openvino), default_batches(shape, dynamic_batch), tolerance)
    report = ExportReport(path, shape, dynamic_batch, wrapped.output, comparisons, operators(path))
    put_into_onnx(path, contract(model, shape, dynamic_batch, wrapped.output))
    return report


def convert(
    model: nn.Module, path: Path, input_shape: tuple[int, ...] | None = None, dynamic_batch: bool = True
) -> tuple[OneOutput, tuple[int, ...]]:
    """Write an ONNX file and check nothing; returns the model with one output, and the shape of the example."""
    program = export_program(model, input_shape=input_shape, dynamic_batch=dynamic_batch)
    example: Tensor = program.example_inputs[0][0]
    wrapped = one_output(model, example)
    _write(program, path, wrapped.output)
    return wrapped, tuple(example.shape)


@contextmanager
def scratch_beside(path: Path) -> Iterator[Path]:
    """A folder on the disk of `path` for what is not checked yet; it is gone afterwards, whatever happened."""
    with tempfile.TemporaryDirectory(dir=path.parent, prefix=".catis-export-") as folder:
        yield Path(folder)


def _refuse_max(model: nn.Module) -> None:
    handle = hosts.find(model)
    methods = (
        [] if handle.reduction is None else [handle.reduction.method.at(block) for block in range(handle.facts.depth)]
    )
    if any(getattr(method, "pooling", None) == "max" for method in methods):
        raise ValueError(
            "mctf with pooling='max' is not exported to ONNX: the elementwise maximum of a group is a scatter with "
            "reduction, which TensorRT lacks; use pooling='attention', 'size' or 'mean'"
        )


def _write(program: torch.export.ExportedProgram, path: Path, output: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the exporter's own notes on its internals
        converted = torch.onnx.export(
            in_few_nodes(program),
            dynamo=True,
            opset_version=OPSET,
            input_names=[INPUT],
            output_names=[output],
            verbose=False,
        )
    assert converted is not None
    fold_weights(converted.model)
    converted.save(path, external_data=False)


def fold_weights(graph: Any) -> None:
    """Work out what is made of stored matrices alone, such as a part of one: int8 is for products with stored ones.

    The exporter does so for small ones only.
    """
    optimizer: Any = importlib.import_module("onnxscript.optimizer")
    optimizer.fold_constants(graph, input_size_limit=_ANY_SIZE, output_size_limit=_ANY_SIZE)
    optimizer.remove_unused_nodes(graph)


def _runners(path: Path, openvino: bool) -> dict[str, Runner]:
    import onnxruntime

    runners = {f"ONNX Runtime {onnxruntime.__version__}": ort_runner(path)}
    if openvino:
        runtime = importlib.import_module("openvino")
        runners[f"OpenVINO {runtime.__version__.split('-')[0]}"] = openvino_runner(path)
    return runners


def operators(path: Path) -> dict[str, int]:
    """How often each operator occurs in a file, most frequent first."""
    import onnx

    return dict(Counter(node.op_type for node in onnx.load(path, load_external_data=False).graph.node).most_common())
