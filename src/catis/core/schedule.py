"""How many patch tokens each block removes: every spelling of `r` becomes one frozen, checked Schedule."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from numbers import Real
from typing import Any

__all__ = ["RLike", "Schedule", "budget"]

_SPELLINGS = (
    "expected an int >= 0 (tokens per block), a fraction in (0, 1) of the patch tokens per block, "
    "a list with one int per block, or a tuple (r, inflect) with inflect in [-1, 1]"
)
_SHAPES = {"constant": 0.0, "decreasing": -1.0, "increasing": 1.0}


def budget(r: int, num_patches: int) -> int:
    """Tokens a block really removes: the budget contract, min(r, floor(N_p / 2)) (docs/methods.md).

    Example:
        >>> budget(23, 19), budget(3, 1)
        (9, 0)
    """
    return min(r, num_patches // 2)


@dataclass(frozen=True)
class Schedule:
    """Patch tokens to remove per block, for a model of any depth.

    Build one with `Schedule.parse` from a Python value, `from_text` from the command line, `from_json` from a file.
    `bound` fits it to a model's depth; only a schedule with an inflect needs that before it can be asked for amounts.

    Attributes:
        r: A count for every block, a fraction in (0, 1) of the tokens present, or one count per block.
        inflect: Spreads a count linearly over the depth, with mean r; 0 is constant.

    Example:
        >>> Schedule.parse(8).token_counts(depth=3, num_patches=64)
        [56, 48, 40]
        >>> Schedule.parse((8, -1.0)).bound(depth=3).r
        (16, 8, 0)
        >>> Schedule.parse(0.25).token_counts(depth=2, num_patches=16)
        [12, 9]
    """

    r: int | float | tuple[int, ...] = 0
    inflect: float = 0.0

    @classmethod
    def parse(cls, r: RLike | None, shape: str | None = None) -> Schedule:
        """Check any Python spelling of r and turn it into a Schedule.

        Args:
            r: An int, a fraction in (0, 1), a list with one entry per block, (r, inflect), or a Schedule.
            shape: "constant", "decreasing" or "increasing", for an int r.

        Raises:
            ValueError: r is negative, not finite, a bool, a string or otherwise unusable.
        """
        if isinstance(r, Schedule):
            return r
        if shape is not None:
            r = _shaped(r, shape)
        if isinstance(r, tuple) and len(r) == 2:
            return cls(_count(r[0], r), _inflect(r[1], r))
        if isinstance(r, Sequence) and not isinstance(r, (str, bytes, tuple)):
            return cls(tuple(_count(value, list(r)) for value in r))
        if isinstance(r, float) and 0.0 < r < 1.0:
            return cls(float(r))
        return cls(_count(r, r))

    @classmethod
    def from_text(cls, text: str) -> Schedule:
        """The command line's spelling; `str` of a schedule gives it back.

        Example:
            >>> [str(Schedule.from_text(text)) for text in ("13", "0.1", "16,8", "8:-1")]
            ['13', '0.1', '16,8', '8:-1']
        """
        expected = "expected a number (13), a share (0.1), one number per block (16,12,8) or r:inflect (8:-1)"
        try:
            value = _value(text)
        except ValueError as error:
            raise ValueError(f"-r {text}: {expected}") from error
        try:
            return cls.parse(value)
        except ValueError as error:
            why = str(error).partition(": ")[2].partition(";")[0]
            raise ValueError(f"-r {text}: {why}; {expected}") from error

    @classmethod
    def from_json(cls, value: Any) -> Schedule:
        """A file's spelling: a number, a list with one number per block, or {"r": 8, "inflect": -1}."""
        if isinstance(value, Mapping) and set(value) == {"r", "inflect"}:
            value = (value["r"], value["inflect"])
        return cls.parse(value)

    def to_json(self) -> Any:
        """The inverse of `from_json`.

        Example:
            >>> Schedule.parse([16, 8]).to_json(), Schedule.parse((8, -1)).to_json()
            ([16, 8], {'r': 8, 'inflect': -1.0})
        """
        if self.inflect:
            return {"r": self.r, "inflect": self.inflect}
        return list(self.r) if isinstance(self.r, tuple) else self.r

    def __str__(self) -> str:
        if self.inflect:
            return f"{self.r}:{self.inflect:g}"
        return ",".join(map(str, self.r)) if isinstance(self.r, tuple) else f"{self.r:g}"

    @property
    def is_vanilla(self) -> bool:
        """Whether no block removes anything, so that the model is the unreduced one."""
        return not any(self.r) if isinstance(self.r, tuple) else not self.r

    def bound(self, depth: int) -> Schedule:
        """The shortest spelling of the same amounts for a model of `depth` blocks; has no inflect.

        Raises:
            ValueError: The schedule lists amounts for another number of blocks.

        Example:
            >>> Schedule.parse([8, 8, 8]).bound(3)
            Schedule(r=8, inflect=0.0)
        """
        amounts = self.r
        if self.inflect:
            assert isinstance(self.r, int)
            amounts = _inflected(self.r, self.inflect, depth)
        if not isinstance(amounts, tuple):
            return self
        if len(amounts) != depth:
            raise _bad(list(amounts), f"{len(amounts)} entries for {depth} blocks")
        return replace(self, r=amounts[0] if len(set(amounts)) == 1 else amounts, inflect=0.0)

    def wanted(self, block: int) -> int | float:
        """What is asked of a block: a count, or a fraction below 1."""
        if self.inflect:
            raise ValueError(f"r={self}: how it is spread depends on the depth of the model; call bound(depth) first")
        return self.r[block] if isinstance(self.r, tuple) else self.r

    def amount(self, block: int, num_patches: int) -> int:
        """Patch tokens that a block removes when `num_patches` enter it (the budget contract)."""
        wanted = self.wanted(block)
        return budget(math.floor(wanted * num_patches) if isinstance(wanted, float) else wanted, num_patches)

    def token_counts(self, depth: int, num_patches: int) -> list[int]:
        """Patch tokens that leave each block, for an image of `num_patches` patches."""
        schedule, counts = self.bound(depth), []
        for block in range(depth):
            num_patches -= schedule.amount(block, num_patches)
            counts.append(num_patches)
        return counts


RLike = int | float | Sequence[int] | tuple[int, float] | Schedule
"""Every Python spelling of r."""


def _value(text: str) -> RLike:
    """The Python value of the command line's spelling."""
    if ":" in text:
        mean, inflect = text.split(":")
        return int(mean), float(inflect)
    if "," in text:
        return [int(part) for part in text.split(",")]
    return float(text) if "." in text else int(text)


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


def _inflected(r: int, inflect: float, depth: int) -> tuple[int, ...]:
    """Linear in depth with mean r: inflect -1 goes from 2r to 0, +1 from 0 to 2r, as in the code of ToMe's authors."""
    low = int(r * (1 - inflect))
    step = (2 * r - 2 * low) / (depth - 1) if depth > 1 else 0.0
    return tuple(int(low + step * block) for block in range(depth)) if depth > 1 else (r,)


def _shaped(r: Any, shape: str) -> Any:
    if shape not in _SHAPES:
        raise ValueError(f"schedule={shape!r}: expected one of {sorted(_SHAPES)}, a list, or a Schedule")
    if shape == "constant":
        return r
    if isinstance(r, (Sequence, float)) and not isinstance(r, (str, bytes)):
        raise ValueError(f"schedule={shape!r} needs an int r, the mean; r={r!r} already says how it is spread")
    return (r, _SHAPES[shape])
