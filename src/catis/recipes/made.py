"""How a recipe came about: the command, the images, what was gained, with which versions."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any

import timm
import torch

import catis


def versions() -> dict[str, str]:
    """What decides numbers besides the settings.

    Example:
        >>> sorted(versions())
        ['catis', 'timm', 'torch']
    """
    return {"catis": catis.__version__, "torch": torch.__version__, "timm": timm.__version__}


@dataclass(frozen=True)
class Made:
    """How a recipe came about. What was not measured is None.

    Example:
        >>> Made("catis tune", held_out_kl=0.21, held_out_agreement=91.5, n_held_out=200).measured
        'KL 0.21, agreement 91.5 % (n=200)'
    """

    command: str = ""  # what was called
    versions: Mapping[str, str] = field(default_factory=versions)  # of catis, torch, timm
    budget: float | None = None  # multiply-adds, as a share of the vanilla model's
    images: str = ""  # fingerprint of the images it was chosen and calibrated on
    n_images: int = 0  # how many these were
    seed: int | None = None  # of everything random
    # Distance from vanilla of what a budget alone does, on clean ones of these images.
    objective_before: float | None = None
    objective_after: float | None = None  # the same under the recipe
    held_out_kl: float | None = None  # KL(vanilla || reduced) of the logits on images that chose nothing
    held_out_agreement: float | None = None  # per cent of these with the vanilla model's class
    n_held_out: int = 0  # how many these were
    minutes: float | None = None  # how long it took

    @classmethod
    def from_json(cls, content: Any, where: str = "recipe") -> Made:
        """The same from plain data; errors begin with `where`."""
        if not isinstance(content, Mapping):
            raise ValueError(f"{where}, made: expected a mapping, got {content!r:.60}")
        known = {option.name: str(option.type) for option in fields(cls)}
        unknown = sorted(set(content) - set(known))
        if unknown:
            raise ValueError(f"{where}, made has the unknown keys {', '.join(unknown)}; expected {', '.join(known)}")
        for name, value in content.items():
            if not _is(value, known[name]):
                raise ValueError(f"{where}, made: {name} is {value!r:.60}, expected {known[name]}")
        return cls(**{"versions": {}, **content})

    def to_json(self) -> dict[str, Any]:
        """Plain data, the inverse of `from_json`."""
        return asdict(self) | {"versions": dict(self.versions)}

    @property
    def measured(self) -> str:
        """What was measured on held-out images, as text; empty if nothing was."""
        kl = None if self.held_out_kl is None else f"KL {self.held_out_kl:.3g}"
        same = None if self.held_out_agreement is None else f"agreement {self.held_out_agreement:.1f} %"
        said = ", ".join(filter(None, (kl, same)))
        return said and f"{said} (n={self.n_held_out})"


def _is(value: Any, kind: str) -> bool:
    """Whether a JSON value is of the kind that a field is declared with."""
    if kind.startswith("Mapping"):
        return isinstance(value, Mapping) and all(isinstance(part, str) for part in value.values())
    if kind == "str":
        return isinstance(value, str)
    if value is None:
        return "None" in kind
    number = isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
    return number and ("float" in kind or isinstance(value, int))
