"""Variants as exported files: the same models in ONNX Runtime or OpenVINO, timed by the same rounds."""

from __future__ import annotations

import importlib
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

from torch import nn

from catis.bench.settings import Runtime
from catis.core.reduction import Reduction
from catis.errors import require
from catis.export.check import Runner
from catis.export.onnx_file import convert
from catis.export.runtimes import openvino_runner, ort_runner


def load_exported(
    variants: Mapping[Reduction, nn.Module], runtime: Runtime, threads: int, tell: Callable[[str], None]
) -> dict[Reduction, Runner]:
    """Export every variant with a free batch, as `catis export` does, and load it."""
    require("ONNX export", "export", "onnx", "onnxscript", "onnxruntime")
    if runtime == "openvino":
        require("OpenVINO", "openvino", "openvino")
    load = ort_runner if runtime == "onnxruntime" else openvino_runner
    runners = {}
    with tempfile.TemporaryDirectory(prefix="catis-bench-") as folder:
        path = Path(folder) / "model.onnx"
        for variant, model in variants.items():
            tell(f"exporting {variant.method.name} r={variant.schedule}")
            convert(model, path)
            runners[variant] = load(path, threads)
    return runners


def describe_runtime(runtime: Runtime) -> str:
    """Name and version."""
    version: str = importlib.import_module(runtime).__version__
    return f"{runtime} {version.split('-')[0]}"
