"""Names made from content: two runs have the same name if, and only if, they compute the same thing."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any


def digest(content: Any, size: int = 8) -> str:
    """Hash of plain data, as 2 * size hexadecimal digits.

    Example:
        >>> digest({"a": 1, "b": 2}) == digest({"b": 2, "a": 1})
        True
    """
    text = json.dumps(content, sort_keys=True, allow_nan=False)
    return hashlib.blake2b(text.encode(), digest_size=size).hexdigest()


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
