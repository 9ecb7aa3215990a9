"""What an object class is made of."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from catis.zoo.sdf import Field, Plane


class Part(NamedTuple):
    """One painted piece: distance field, colour slot, and whether the object's texture is drawn on it."""

    field: Field
    slot: int
    textured: bool = False


Jitter = Sequence[float]
"""Three numbers in [-1, 1] that vary an object's proportions."""

Builder = Callable[[Plane, Jitter], list[Part]]
