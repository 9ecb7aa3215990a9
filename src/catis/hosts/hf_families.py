"""All vision models of transformers that catis knows."""

from __future__ import annotations

from typing import Any

from catis.hosts.hf_encoders import BACKBONES, ENCODERS
from catis.hosts.hf_family import Family
from catis.hosts.tower_families import TOWERS

FAMILIES = (*ENCODERS, *BACKBONES, *TOWERS)
_BY_CLASS = {(family.module, family.stem + family.model): family for family in FAMILIES}


def family_of(kind: type[Any]) -> Family | None:
    """The family that a model class belongs to, itself or through its bases; None if catis does not know it."""
    for base in kind.__mro__:
        if (base.__module__, base.__qualname__) in _BY_CLASS:
            return _BY_CLASS[base.__module__, base.__qualname__]
    return None
