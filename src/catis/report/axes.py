"""The axes of a chart: round ticks, and the way from values to pixels."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

AXIS, GRID = "#333333", "#e4e4e4"


@dataclass(frozen=True)
class Scale:
    """From values to pixels: the values at both ends, and the pixels there."""

    low: float
    high: float
    start: float
    end: float

    def __call__(self, value: float) -> float:
        """The pixel of a value."""
        return self.start + (value - self.low) / (self.high - self.low) * (self.end - self.start)


def ticks(low: float, high: float, wanted: int = 5) -> list[float]:
    """Round numbers that cover a range.

    Example:
        >>> ticks(0.0, 0.93)
        [0.0, 0.2, 0.4, 0.6, 0.8, 1.0]
    """
    width = max(high - low, 1e-9)
    unit = 10.0 ** math.floor(math.log10(width / wanted))
    step = next(unit * m for m in (1, 2, 5, 10) if width / (unit * m) <= wanted)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [round(step * k, 10) for k in range(first, max(last, first + 1) + 1)]


def span(values: Iterable[float]) -> tuple[float, float]:
    """Smallest and largest finite value; a range around a single one, 0 to 1 around none.

    Example:
        >>> span([3.0, math.nan, 1.0]), span([])
        ((1.0, 3.0), (0.0, 1.0))
    """
    known = [value for value in values if math.isfinite(value)]
    if not known:
        return 0.0, 1.0
    return (min(known), max(known)) if min(known) < max(known) else (known[0] - 0.5, known[0] + 0.5)


def across(tick: float, x: Scale, y: Scale) -> str:
    """A line of the grid at a value of y, with its number."""
    at = y(tick)
    return (
        f'<line class="grid" x1="{x.start:.1f}" x2="{x.end:.1f}" y1="{at:.2f}" y2="{at:.2f}" stroke="{GRID}"/>'
        f'<text x="{x.start - 6:.1f}" y="{at + 4:.2f}" text-anchor="end" font-size="11">{tick:g}</text>'
    )


def below(tick: float, x: Scale, y: Scale) -> str:
    """A tick at a value of x, with its number."""
    at = x(tick)
    return (
        f'<line class="axis" x1="{at:.2f}" x2="{at:.2f}" y1="{y.start:.1f}" y2="{y.start + 4:.1f}" stroke="{AXIS}"/>'
        f'<text x="{at:.2f}" y="{y.start + 17:.1f}" text-anchor="middle" font-size="11">{tick:g}</text>'
    )
