"""Exported files as what is timed: what the JSON beside one says of it, how it is run, and models exported for it."""

from __future__ import annotations

import importlib
import json
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

import torch
from torch import nn

from catis.bench.settings import Runtime
from catis.bench.variants import VANILLA
from catis.core.reduction import Reduction
from catis.errors import require
from catis.export.check import Runner
from catis.export.contract import contract_file
from catis.export.onnx_file import convert
from catis.export.runtimes import openvino_runner, ort_runner, program_runner
from catis.recipes import Recipe

RUNTIMES: dict[str, tuple[Runtime, ...]] = {
    ".onnx": ("onnxruntime", "openvino"),
    ".xml": ("openvino",),
    ".pt2": ("torch",),
}
"""What runs a file, by its ending; the first one unless another is asked for."""
_QUANTISED = {".onnx": b"QuantizeLinear", ".xml": b'type="FakeQuantize"'}


@dataclass(frozen=True)
class ExportedFile:
    """A file that `catis export` wrote."""

    path: Path
    variant: Reduction  # what was on the model
    number_format: str  # "int8" where products were quantised, else "float32"
    model: str  # name of the model; empty where it had none
    shape: tuple[int | None, ...]  # of the input, batch first; None for a free batch
    macs: int  # multiply-adds of one image
    vanilla_macs: int  # those of its vanilla model
    tokens_last: int  # patch tokens after the last block
    parameters: int


def runtime_for(path: Path, asked: Runtime | None) -> Runtime:
    """What runs a file: the runtime that was asked for, if it can, or the file's first."""
    known = RUNTIMES.get(path.suffix)
    if known is None:
        raise ValueError(f"{path}: expected a file that ends in {', '.join(RUNTIMES)}, as `catis export` writes them")
    if asked is not None and asked not in known:
        others = ", ".join(name for name in get_args(Runtime) if name in known)
        raise ValueError(f"{path} is not run by {asked}: expected {others}")
    return asked or known[0]


def read_file(path: Path) -> ExportedFile:
    """What a file and the JSON beside it say."""
    beside = contract_file(path)
    for needed in (path, beside):
        if not needed.is_file():
            raise ValueError(
                f"{needed} is not there: expected a file that `catis export` wrote, and its JSON beside it"
            )
    content: dict[str, Any] = json.loads(beside.read_text(encoding="utf-8"))
    if not {"cost", "model", "recipe", "input"} <= content.keys():
        raise ValueError(
            f"{beside} does not say what the file costs: another version of catis wrote it; export the model again"
        )
    recipe, cost = content["recipe"], content["cost"]
    vanilla = recipe is None or cost["gmacs"] == cost["vanilla_gmacs"]  # -r 0 removes nothing
    reduction = VANILLA if vanilla else Recipe.from_json(recipe, str(beside)).reduction
    batch, *image = content["input"]["shape"]
    return ExportedFile(
        path,
        reduction,
        _number_format(path),
        content["model"],
        (None if batch == "batch" else batch, *image),
        round(1e9 * cost["gmacs"]),
        round(1e9 * cost["vanilla_gmacs"]),
        cost["tokens_last"],
        cost["parameters"],
    )


def load_file(path: Path, runtime: Runtime, threads: int, batch: int) -> Runner:
    """Load a file for its runtime and for batches of one size."""
    if runtime == "torch":
        return program_runner(path)
    require("exported files", "openvino" if runtime == "openvino" else "export", runtime)
    if runtime == "onnxruntime":  # which gains nothing from knowing the batch
        return ort_runner(path, threads)
    return openvino_runner(path, threads, batch=batch)


def load_exported(
    variants: Mapping[Reduction, nn.Module],
    runtime: Runtime,
    threads: int,
    batches: Sequence[int],
    tell: Callable[[str], None],
) -> dict[tuple[Reduction, int], Runner]:
    """Export every variant with a free batch, as `catis export` does, and load it for every batch size."""
    require("ONNX export", "export", "onnx", "onnxscript", "onnxruntime")
    runners: dict[tuple[Reduction, int], Runner] = {}
    with tempfile.TemporaryDirectory(prefix="catis-bench-") as folder:
        path = Path(folder) / "model.onnx"
        for variant, model in variants.items():
            tell(f"exporting {variant.method.name} r={variant.schedule}")
            convert(model, path)
            runners |= {(variant, batch): load_file(path, runtime, threads, batch) for batch in batches}
    return runners


def describe_runtime(runtime: Runtime) -> str:
    """Name and version."""
    version: str = importlib.import_module(runtime).__version__
    return f"{runtime} {version.split('-')[0]}"


def _number_format(path: Path) -> str:
    mark = _QUANTISED.get(path.suffix)
    return "int8" if mark is not None and mark in path.read_bytes() else "float32"


def noise(shape: tuple[int | None, ...], batch: int, seed: int) -> torch.Tensor:
    """(B, 3, H, W) noise: what is in an image does not change the shapes."""
    sides = [side for side in shape[1:] if side is not None]
    return torch.randn((batch, *sides), generator=torch.Generator().manual_seed(seed))
