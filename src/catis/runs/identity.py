"""Names made from content: two runs have the same name if, and only if, they compute the same thing."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import timm
import torch
from torch import nn

import catis

__all__ = ["data_fingerprint", "digest", "run_name", "versions", "weights_hash"]


def versions() -> dict[str, str]:
    """What decides the numbers besides the run itself."""
    return {"catis": catis.__version__, "torch": torch.__version__, "timm": timm.__version__}


def digest(content: Any, size: int = 8) -> str:
    """Hash of plain data, as 2 * size hexadecimal digits.

    Example:
        >>> digest({"a": 1, "b": 2}) == digest({"b": 2, "a": 1})
        True
    """
    text = json.dumps(content, sort_keys=True, allow_nan=False)
    return hashlib.blake2b(text.encode(), digest_size=size).hexdigest()


def weights_hash(model: nn.Module) -> str:
    """Hash of all parameters and buffers: names, types, shapes and bytes.

    Example:
        >>> model = nn.Linear(2, 2)
        >>> before = weights_hash(model)
        >>> before == weights_hash(model), before == weights_hash(nn.Linear(2, 2))
        (True, False)
    """
    found = hashlib.blake2b(digest_size=16)
    for name, tensor in sorted(model.state_dict().items()):
        found.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        flat = tensor.detach().cpu().contiguous().reshape(-1)
        found.update(memoryview(flat.view(torch.uint8).numpy()) if flat.numel() else b"")
    return found.hexdigest()


def data_fingerprint(items: Iterable[tuple[str, int, int]], **facts: Any) -> str:
    """Hash of a data set: name, size in bytes and label of every image, and whatever else decides its pixels.

    Modification times are left out: a copy on another machine is the same data.

    Example:
        >>> data_fingerprint([("a.png", 10, 0)]) == data_fingerprint([("a.png", 10, 1)])
        False
    """
    return digest([sorted(items), facts], size=16)


def run_name(stem: Sequence[str], identity: Mapping[str, Any]) -> str:
    """A readable beginning, and a hash of everything that decides the result.

    Example:
        >>> run_name(["hf-hub:org/model", "tome", "r=8", "imagenet@fog:3"], {"seed": 0})
        'hf-hub-org-model-tome-r-8-imagenet-fog-3-...'
    """
    readable = re.sub(r"[^A-Za-z0-9_.]+", "-", "-".join(stem)).strip("-.")[:120]
    return f"{readable}-{digest(identity)}"
