"""Exported files as what is timed: what the JSON beside one says of it, and how it is run."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

import torch

from catis.bench.exported import load_runner
from catis.bench.settings import Runtime
from catis.bench.variants import VANILLA
from catis.core.reduction import Reduction
from catis.errors import require
from catis.export.check import Runner
from catis.export.contract import contract_file
from catis.export.runtimes import program_runner
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
    """A file that `catis export` wrote.

    Attributes:
        path: The file.
        variant: What was on the model.
        number_format: "int8" where products were quantised, else "float32".
        model: Name of the model; empty where it had none.
        shape: Of the input, batch first; None for a free batch.
        macs: Multiply-adds of one image.
        vanilla_macs: Those of its vanilla model.
        tokens_last: Patch tokens after the last block.
        parameters: Parameters of the model.
    """

    path: Path
    variant: Reduction
    number_format: str
    model: str
    shape: tuple[int | None, ...]
    macs: int
    vanilla_macs: int
    tokens_last: int
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
    """What a file and the JSON beside it say.

    Raises:
        ValueError: There is no such file, no JSON beside it, or one of an older catis.
    """
    beside = contract_file(path)
    for needed in (path, beside):
        if not needed.is_file():
            raise ValueError(
                f"{needed} is not there: expected a file that `catis export` wrote, and its JSON beside it"
            )
    content: dict[str, Any] = json.loads(beside.read_text(encoding="utf-8"))
    if not {"cost", "model", "recipe", "input"} <= content.keys():
        raise ValueError(f"{beside} does not say what the file costs: it is of another catis; export the model again")
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
    return load_runner(path, runtime, threads, batch)


def _number_format(path: Path) -> str:
    mark = _QUANTISED.get(path.suffix)
    return "int8" if mark is not None and mark in path.read_bytes() else "float32"


def noise(shape: tuple[int | None, ...], batch: int, seed: int) -> torch.Tensor:
    """(B, 3, H, W) noise: what is in an image does not change the shapes."""
    sides = [side for side in shape[1:] if side is not None]
    return torch.randn((batch, *sides), generator=torch.Generator().manual_seed(seed))
