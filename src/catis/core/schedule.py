"""How many patch tokens each block removes: every spelling of `r` becomes one frozen, checked Schedule."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any

__all__ = ["RLike", "Schedule", "budget"]

RLike = int | float | Sequence[int] | tuple[int, float]
_SPELLINGS = (
    "expected an int >= 0 (tokens per block), a fraction in (0, 1) of the patch tokens per block, "
    "a list with one int per block, or a tuple (r, inflect) with inflect in [-1, 1]"
)
_SHAPES = {"constant": 0.0, "decreasing": -1.0, "increasing": 1.0}


def budget(r: int, num_patches: int) -> int:
    """Tokens a block really removes: the budget contract, min(r, floor(N_p / 2)) (SPEC 2).

    Example:
        >>> budget(23, 19), budget(3, 1)
        (9, 0)
    """
    return min(r, num_patches // 2)


@dataclass(frozen=True)
class Schedule:
    """Tokens to remove in each of `depth` blocks, as counts or as a fraction of the tokens present.

    Exactly one of `amounts` and `fraction` is set. Build one with `Schedule.parse`.

    Example:
        >>> Schedule.parse(8, depth=3).amounts
        (8, 8, 8)
        >>> Schedule.parse((8, -1.0), depth=3).amounts
        (16, 8, 0)
        >>> Schedule.parse(0.25, depth=2).token_counts(16)
        [12, 9]
    """

    depth: int
    amounts: tuple[int, ...] | None = None
    fraction: float | None = None

    @classmethod
    def parse(cls, r: RLike | Schedule | None, depth: int, shape: str | None = None) -> Schedule:
        """Check any spelling of r and turn it into a Schedule.

        Args:
            r: An int, a fraction in (0, 1), a list with one entry per block, (r, inflect), or a Schedule.
            depth: Number of blocks.
            shape: "constant", "decreasing" or "increasing", for an int r.

        Raises:
            ValueError: r is negative, not finite, a bool, a string, of the wrong length or otherwise unusable.
        """
        if isinstance(r, Schedule):
            return r._for_depth(depth)
        if shape is not None:
            r = _shaped(r, shape)
        if isinstance(r, tuple) and len(r) == 2:
            return cls(depth, amounts=_inflected(_count(r[0], r), _inflect(r[1], r), depth))
        if isinstance(r, Sequence) and not isinstance(r, (str, bytes, tuple)):
            return cls(depth, amounts=_listed(r, depth))
        if isinstance(r, float) and not r.is_integer() and 0.0 < r < 1.0:
            return cls(depth, fraction=r)
        return cls(depth, amounts=(_count(r, r),) * depth)

    @property
    def is_vanilla(self) -> bool:
        """Whether no block removes anything, so that the model is the unreduced one."""
        return self.fraction is None and not any(self.amounts or ())

    def amount(self, layer: int, num_patches: int) -> int:
        """Patch tokens that block `layer` removes when `num_patches` enter it (the budget contract)."""
        if self.fraction is not None:
            return budget(math.floor(self.fraction * num_patches), num_patches)
        assert self.amounts is not None
        return budget(self.amounts[layer], num_patches)

    def token_counts(self, num_patches: int) -> list[int]:
        """Patch tokens that leave each block, for an image of `num_patches` patches."""
        counts = []
        for layer in range(self.depth):
            num_patches -= self.amount(layer, num_patches)
            counts.append(num_patches)
        return counts

    def describe(self) -> str:
        """One short word for tables: `r=8`, `r=0.25`, or the list."""
        if self.fraction is not None:
            return f"r={self.fraction:g}"
        assert self.amounts is not None
        return f"r={self.amounts[0]}" if len(set(self.amounts)) == 1 else f"r={list(self.amounts)}"

    def _for_depth(self, depth: int) -> Schedule:
        if self.depth != depth:
            raise ValueError(f"the schedule is for {self.depth} blocks, the model has {depth}: build one for {depth}")
        return self


def _bad(given: Any, why: str) -> ValueError:
    return ValueError(f"r={given!r}: {why}; {_SPELLINGS}")


def _count(value: Any, given: Any) -> int:
    if value is None:
        raise _bad(given, "say how many tokens to remove")
    if isinstance(value, bool) or not isinstance(value, Real):
        raise _bad(given, f"{value!r} is a {type(value).__name__}, not a number of tokens")
    if not math.isfinite(value):
        raise _bad(given, f"{value!r} is not finite")
    if value < 0:
        raise _bad(given, f"{value!r} is negative")
    number = float(value)
    if not number.is_integer():
        raise _bad(given, f"{value!r} is neither a whole number nor a fraction below 1")
    return int(number)


def _inflect(value: Any, given: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, Real) or not -1 <= float(value) <= 1:
        raise _bad(given, f"inflect {value!r} is outside [-1, 1]")
    return float(value)


def _listed(values: Sequence[Any], depth: int) -> tuple[int, ...]:
    if len(values) != depth:
        raise _bad(list(values), f"{len(values)} entries for {depth} blocks")
    return tuple(_count(value, list(values)) for value in values)


def _inflected(r: int, inflect: float, depth: int) -> tuple[int, ...]:
    """Linear in depth with mean r: inflect -1 goes from 2r to 0, +1 from 0 to 2r (BASELINES 1.1)."""
    low = int(r * (1 - inflect))
    step = (2 * r - 2 * low) / (depth - 1) if depth > 1 else 0.0
    return tuple(int(low + step * layer) for layer in range(depth)) if depth > 1 else (r,)


def _shaped(r: Any, shape: str) -> Any:
    if shape not in _SHAPES:
        raise ValueError(f"schedule={shape!r}: expected one of {sorted(_SHAPES)}, a list, or a Schedule")
    if shape == "constant":
        return r
    if isinstance(r, (Sequence, float)) and not isinstance(r, (str, bytes)):
        raise ValueError(f"schedule={shape!r} needs an int r, the mean; r={r!r} already says how it is spread")
    return (r, _SHAPES[shape])
