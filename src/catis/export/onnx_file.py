"""An ONNX file of a model by the dynamo exporter, checked in ONNX Runtime (and OpenVINO on request)."""

from __future__ import annotations

import importlib
import warnings
from collections import Counter
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from catis import hosts
from catis.errors import require
from catis.export.check import Runner, check, default_batches
from catis.export.decompose import in_few_nodes
from catis.export.program import INPUT, export_program, one_output
from catis.export.report import ExportReport

__all__ = ["OPSET", "export_onnx", "openvino_runner", "operators", "ort_runner"]

OPSET = 20
"""First opset with Gelu; LayerNormalization came with 17. ONNX Runtime, OpenVINO and TensorRT 10 read it."""


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

    Args:
        model: A reduced model, or a plain one, in eval mode.
        path: The file to write.
        input_shape: Shape of an input, batch first; the model's own by default.
        dynamic_batch: Take any batch size; otherwise only that of `input_shape`.
        tolerance: Largest absolute difference allowed.
        openvino: Check in OpenVINO as well.

    Raises:
        MissingExtraError: ONNX packages are not installed.
        ExportMismatchError: A runtime does not compute what PyTorch computes.
    """
    require("ONNX export", "export", "onnx", "onnxscript", "onnxruntime")
    if openvino:
        require("the OpenVINO check", "openvino", "openvino")
    _refuse_max(model)
    program = export_program(model, input_shape=input_shape, dynamic_batch=dynamic_batch)
    example: Tensor = program.example_inputs[0][0]
    wrapped = one_output(model, example)
    path = Path(path)
    partial = path.with_name(path.name + ".partial.onnx")
    try:
        _write(program, partial, wrapped.output)
        runners = _runners(partial, openvino)
        found = check(wrapped, runners, default_batches(tuple(example.shape), dynamic_batch), tolerance)
        counted = operators(partial)
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)
    return ExportReport(path, tuple(example.shape), dynamic_batch, wrapped.output, found, counted)


def _refuse_max(model: nn.Module) -> None:
    reduction = hosts.find(model).reduction
    if reduction is not None and reduction.options.get("pooling") == "max":
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
    converted.save(path, external_data=False)


def _runners(path: Path, openvino: bool) -> dict[str, Runner]:
    import onnxruntime

    runners = {f"ONNX Runtime {onnxruntime.__version__}": ort_runner(path)}
    if openvino:
        runtime = importlib.import_module("openvino")
        runners[f"OpenVINO {runtime.__version__.split('-')[0]}"] = openvino_runner(path)
    return runners


def ort_runner(path: Path) -> Runner:
    """Run a file in ONNX Runtime on the CPU."""
    import onnxruntime

    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    return lambda pixels: session.run(None, {INPUT: pixels.numpy()})[0]


def openvino_runner(path: Path) -> Runner:
    """Run a file in OpenVINO on the CPU, in float32, which is not its default everywhere."""
    openvino: Any = importlib.import_module("openvino")
    compiled = openvino.Core().compile_model(path, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    return lambda pixels: compiled(pixels.numpy())[0]


def operators(path: Path) -> dict[str, int]:
    """How often each operator occurs in a file, most frequent first."""
    import onnx

    return dict(Counter(node.op_type for node in onnx.load(path, load_external_data=False).graph.node).most_common())
