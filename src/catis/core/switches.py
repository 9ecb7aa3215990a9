"""What the switches of a reduction may be, whatever its method."""

from __future__ import annotations

import math
from numbers import Real
from typing import Any, Literal, get_args

Output = Literal["grid", "tokens"]


def check_output(value: Any) -> Output:
    """What leaves the model's blocks, if there is such a thing."""
    if value not in get_args(Output):
        raise ValueError(f"output={value!r}: expected one of {list(get_args(Output))}")
    chosen: Output = value
    return chosen


def check_gain(value: Any) -> float | tuple[float, ...] | None:
    """A factor on log(size), or one per block.

    Example:
        >>> check_gain([1, 0.5])
        (1.0, 0.5)
    """
    if value is None:
        return None
    numbers = [value] if isinstance(value, Real) else list(value)
    if not all(isinstance(number, Real) and 0 <= float(number) < math.inf for number in numbers):
        raise ValueError(f"size_gain={value!r}: expected a number >= 0, or one per block")
    return float(value) if isinstance(value, Real) else tuple(map(float, numbers))


def check_soften(value: Any) -> float | None:
    """How much softer attention gets as tokens go: less than 1, or nothing would be left of it.

    Example:
        >>> check_soften(0.1)
        0.1
    """
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, Real) or not 0 <= float(value) < 1:
        raise ValueError(f"soften={value!r}: expected a number >= 0 and below 1")
    return float(value)


def check_choice(name: str, value: Any) -> bool | None:
    """Yes, no, or None for what the method or the model has by itself."""
    if value is not None and not isinstance(value, bool):
        raise ValueError(f"{name}={value!r}: expected True or False, or None for the usual")
    return value


def check_side(value: Any) -> int | None:
    """The side of the image in pixels."""
    if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < 1):
        raise ValueError(f"input_size={value!r}: expected the side of the image in pixels")
    return value
