"""Checks the numbers in a spelling of `r`, and says what is wrong with them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from numbers import Real
from typing import Any

_SPELLINGS = (
    "expected an int >= 0 (tokens per block), a fraction in (0, 1) of the patch tokens per block, "
    "a list with one int per block, or a tuple (r, inflect) with inflect in [-1, 1]"
)
_SHAPES = {"constant": 0.0, "decreasing": -1.0, "increasing": 1.0}


def capped(r: int, num_patches: int) -> int:
    """Tokens a block really removes: the budget contract, min(r, floor(N_p / 2)) (docs/methods.md).

    Example:
        >>> capped(23, 19), capped(3, 1)
        (9, 0)
    """
    return min(r, num_patches // 2)


def bad(given: Any, why: str) -> ValueError:
    """The error for an unusable r, with all spellings."""
    return ValueError(f"r={given!r}: {why}; {_SPELLINGS}")


def count_of(value: Any, given: Any) -> int:
    """A number of tokens, checked; `given` is what it was part of."""
    if value is None:
        raise bad(given, "say how many tokens to remove")
    if isinstance(value, bool) or not isinstance(value, Real):
        raise bad(given, f"{value!r} is a {type(value).__name__}, not a number of tokens")
    if not math.isfinite(value):
        raise bad(given, f"{value!r} is not finite")
    if value < 0:
        raise bad(given, f"{value!r} is negative")
    number = float(value)
    if not number.is_integer():
        raise bad(given, f"{value!r} is neither a whole number nor a fraction below 1")
    return int(number)


def counts_of(values: Any) -> list[int]:
    """Numbers of tokens, checked."""
    if not isinstance(values, Sequence) or isinstance(values, str):
        raise bad(values, "kept is not a list of numbers")
    return [count_of(value, list(values)) for value in values]


def inflect_of(value: Any, given: Any) -> float:
    """An inflect in [-1, 1], checked."""
    if isinstance(value, bool) or not isinstance(value, Real) or not -1 <= float(value) <= 1:
        raise bad(given, f"inflect {value!r} is outside [-1, 1]")
    return float(value)


def inflected(r: int, inflect: float, depth: int) -> tuple[int, ...]:
    """Linear in depth with mean r: inflect -1 goes from 2r to 0, +1 from 0 to 2r, as in the code of ToMe's authors."""
    low = int(r * (1 - inflect))
    step = (2 * r - 2 * low) / (depth - 1) if depth > 1 else 0.0
    return tuple(int(low + step * block) for block in range(depth)) if depth > 1 else (r,)


def shaped(r: Any, shape: str) -> Any:
    """The spelling of r in the shape of a word."""
    if shape not in _SHAPES:
        raise ValueError(f"schedule={shape!r}: expected one of {sorted(_SHAPES)}, a list, or a Schedule")
    if shape == "constant":
        return r
    if isinstance(r, (Sequence, float)) and not isinstance(r, (str, bytes)):
        raise ValueError(f"schedule={shape!r} needs an int r, the mean; r={r!r} already says how it is spread")
    return (r, _SHAPES[shape])
