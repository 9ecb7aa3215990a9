"""Variants as exported files: the same models in ONNX Runtime or OpenVINO, timed by the same rounds."""

from __future__ import annotations

import importlib
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from torch import nn

from catis.bench.settings import Runtime
from catis.core.reduction import Reduction
from catis.errors import require
from catis.export.check import Runner
from catis.export.onnx_file import convert
from catis.export.runtimes import openvino_runner, ort_runner


def load_exported(
    variants: Mapping[Reduction, nn.Module],
    runtime: Runtime,
    threads: int,
    batches: Sequence[int],
    tell: Callable[[str], None],
) -> dict[tuple[Reduction, int], Runner]:
    """Export every variant with a free batch, as `catis export` does, and load it for every batch size.

    Args:
        variants: Models to export.
        runtime: "onnxruntime" or "openvino".
        threads: Threads of the runtime.
        batches: Images per pass; OpenVINO is told, where free shapes take time.
        tell: Told what is going on.
    """
    require("ONNX export", "export", "onnx", "onnxscript", "onnxruntime")
    if runtime == "openvino":
        require("OpenVINO", "openvino", "openvino")
    runners: dict[tuple[Reduction, int], Runner] = {}
    with tempfile.TemporaryDirectory(prefix="catis-bench-") as folder:
        path = Path(folder) / "model.onnx"
        for variant, model in variants.items():
            tell(f"exporting {variant.method.name} r={variant.schedule}")
            convert(model, path)
            runners |= {(variant, batch): load_runner(path, runtime, threads, batch) for batch in batches}
    return runners


def load_runner(path: Path, runtime: Runtime, threads: int, batch: int) -> Runner:
    """Load a file in ONNX Runtime, which gains nothing from knowing the batch, or in OpenVINO, which does."""
    if runtime == "onnxruntime":
        return ort_runner(path, threads)
    return openvino_runner(path, threads, batch=batch)


def describe_runtime(runtime: Runtime) -> str:
    """Name and version."""
    version: str = importlib.import_module(runtime).__version__
    return f"{runtime} {version.split('-')[0]}"
