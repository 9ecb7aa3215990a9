"""The calibrated weights of a recipe: a safetensors file beside it, bound to it by its sha256 and by the reduction."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from safetensors.torch import save

from catis.core.reduction import Reduction
from catis.hosts.correction import Correction

WEIGHTS_NAME = "catis_weights.safetensors"
_KEYS = ("file", "belongs_to", "sha256")


def weights_bytes(correction: Correction) -> bytes:
    """The file's content; the reduction goes into it, so that an edited recipe is noticed."""
    values = {name: value.contiguous() for name, value in correction.values.items()}
    content: bytes = save(values, {"catis_reduction": json.dumps(correction.reduction.to_json(), sort_keys=True)})
    return content


def weights_entry(correction: Correction, file: str, content: bytes) -> dict[str, Any]:
    """What the recipe says of its weights: the file, the hashes of the vanilla weights, and the file's own hash."""
    return {"file": file, "belongs_to": dict(correction.hashes), "sha256": hashlib.sha256(content).hexdigest()}


def read_weights(entry: Any, recipe: Path) -> Correction:
    """The correction that a recipe's key `weights` names; errors begin with the recipe."""
    if not isinstance(entry, Mapping) or set(entry) != set(_KEYS):
        raise ValueError(f"{recipe}: weights is {entry!r:.80}, expected the keys {', '.join(_KEYS)}")
    name, hashes = entry["file"], entry["belongs_to"]
    if not isinstance(name, str) or name in ("", ".", "..") or {"/", "\\", "\0"} & set(name):
        raise ValueError(f"{recipe}: weights.file is {name!r:.80}, expected the name of a file beside the recipe")
    if not isinstance(hashes, Mapping) or not all(isinstance(part, str) for part in hashes.values()):
        raise ValueError(f"{recipe}: weights.belongs_to is {hashes!r:.80}, expected a hash for each type of weights")
    file = recipe.parent / name
    if not file.is_file():
        raise ValueError(f"{recipe}: its calibrated weights, {name}, are not beside it")
    with file.open("rb") as opened:
        digest = hashlib.file_digest(opened, "sha256").hexdigest()
    if digest != entry["sha256"]:
        raise ValueError(f"{recipe}: {name} is damaged or of another recipe: sha256 {digest}, not {entry['sha256']}")
    return _read(file, recipe, hashes)


def _read(file: Path, recipe: Path, hashes: Mapping[str, str]) -> Correction:
    try:
        with safe_open(file, "pt") as opened:
            about = opened.metadata() or {}
            values = {name: opened.get_tensor(name) for name in opened.keys()}  # noqa: SIM118
    except SafetensorError as error:
        raise ValueError(f"{recipe}: {file.name} is not a safetensors file: {error}") from error
    if "catis_reduction" not in about:
        raise ValueError(f"{recipe}: {file.name} does not say what it was calibrated for: not written by catis")
    unusable = [name for name, value in values.items() if not (value.is_floating_point() and value.isfinite().all())]
    if unusable:
        raise ValueError(f"{recipe}: {file.name} holds values that are no finite numbers in {', '.join(unusable)}")
    return Correction(values, Reduction.from_json(json.loads(about["catis_reduction"]), str(recipe)), dict(hashes))
