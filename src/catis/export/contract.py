"""What somebody who has only the exported file must know: input, preprocessing, labels, recipe; as JSON."""

from __future__ import annotations

import json
import math
from dataclasses import asdict
from pathlib import Path
from typing import Any

from torch import nn

from catis import __version__, hosts
from catis.core.reduction import Reduction
from catis.export.report import ExportReport
from catis.files import write_whole
from catis.macs import compare_macs
from catis.recipes import recipe_of

INPUT = "pixel_values"
"""Name of every exported file's input."""

PREFIX = "catis."
"""Of the keys in an ONNX file's metadata."""


def contract(model: nn.Module, input_shape: tuple[int, ...], dynamic_batch: bool, output: str) -> dict[str, Any]:
    """Input, preprocessing, output, labels and recipe of an exported model as plain data.

    Example:
        >>> import timm
        >>> written = contract(timm.create_model("test_vit"), (2, 3, 160, 160), True, "logits")
        >>> written["input"], written["preprocessing"]["resize"], written["labels"][281]
        ({'name': 'pixel_values', 'shape': ['batch', 3, 160, 160], 'type': 'float32'}, [168, 168], 'tabby')
    """
    handle = hosts.find(model)
    shape = ["batch" if dynamic_batch else input_shape[0], *input_shape[1:]]
    return {
        "input": {"name": INPUT, "shape": shape, "type": "float32"},
        "output": {"name": output},
        "preprocessing": _preprocessing(handle),
        "labels": list(handle.labels),
        "recipe": None if handle.reduction is None else recipe_of(model).to_json(),
        "calibrated": handle.correction is not None,  # then the weights are no longer vanilla's
        "model": handle.name,
        "cost": _cost(model, handle),
        "catis": __version__,
    }


def contract_file(exported: Path) -> Path:
    """Where the JSON beside an exported file is."""
    return exported.with_suffix(".json")


def write_contract(path: Path, model: nn.Module, report: ExportReport) -> None:
    """The JSON beside an exported file."""
    content = contract(model, report.input_shape, report.dynamic_batch, report.output)
    text = json.dumps({"file": path.name, **content}, indent=1, ensure_ascii=False) + "\n"
    write_whole(contract_file(path), text.encode())


def put_into_onnx(path: Path, content: dict[str, Any]) -> None:
    """Write the contract into an ONNX file's own metadata, one key for each part, each value JSON."""
    import onnx

    model = onnx.load(path)
    known = {entry.key: entry.value for entry in model.metadata_props}
    onnx.helper.set_model_props(
        model, known | {f"{PREFIX}{key}": json.dumps(value, ensure_ascii=False) for key, value in content.items()}
    )
    onnx.save(model, path)


def _cost(model: nn.Module, handle: hosts.Handle) -> dict[str, float]:
    """What `catis bench` tells of a file: giga multiply-adds with and without reduction, tokens, parameters."""
    macs = compare_macs(model, handle.reduction or Reduction.none())
    return {
        "gmacs": macs.reduced,
        "vanilla_gmacs": macs.vanilla,
        "tokens_last": macs.tokens[-1],
        "parameters": sum(parameter.numel() for parameter in model.parameters()),
    }


def _preprocessing(handle: hosts.Handle) -> dict[str, Any]:
    """The model's own, with the size that the crop is cut from: timm and transformers each round it in their way."""
    preprocessing = handle.preprocessing()
    resize = [math.floor(side / preprocessing.crop_pct) for side in preprocessing.size]
    return {**asdict(preprocessing), "resize": resize, "channels": "RGB"}
