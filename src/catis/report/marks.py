"""What a chart is made of, as SVG: axes with round ticks, curves, points and intervals; points say their values."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape

AXIS, GRID = "#333333", "#e4e4e4"
DASHES = {"solid": "", "dashed": ' stroke-dasharray="5 4"', "dotted": ' stroke-dasharray="1.5 3.5"'}
SIZE = 3.2
MARKERS = {
    "square": ((-1, -1), (1, -1), (1, 1), (-1, 1)),
    "triangle": ((0, -1.2), (1.2, 1), (-1.2, 1)),
    "diamond": ((0, -1.4), (1.4, 0), (0, 1.4), (-1.4, 0)),
    "star": tuple(
        ((1.6, 0.7)[k % 2] * math.sin(k * math.pi / 5), (-1.6, -0.7)[k % 2] * math.cos(k * math.pi / 5))
        for k in range(10)
    ),
    "pentagon": tuple((1.4 * math.sin(k * math.pi / 2.5), -1.4 * math.cos(k * math.pi / 2.5)) for k in range(5)),
    "cross": (
        (-1.3, -0.7), (-0.7, -1.3), (0, -0.6), (0.7, -1.3), (1.3, -0.7), (0.6, 0),
        (1.3, 0.7), (0.7, 1.3), (0, 0.6), (-0.7, 1.3), (-1.3, 0.7), (-0.6, 0),
    ),
}  # fmt: skip
"""Corners of each marker but the circle."""


@dataclass(frozen=True)
class Line:
    """One curve."""

    name: str  # in the legend; curves of one name in several panels share an entry
    x: Sequence[float]
    y: Sequence[float]  # values; the curve is interrupted at NaN
    colour: str  # any SVG colour; `catis.report.colours` has that of each method
    marker: str = ""  # "circle", one of MARKERS, or "" for none
    dash: str = "solid"  # "solid", "dashed" or "dotted"
    joined: bool = True  # whether to join the points
    # Lower ends of intervals, one per point, or none at all: a band along a curve, whiskers at loose points.
    low: Sequence[float] = ()
    high: Sequence[float] = ()  # upper ends
    labels: Sequence[str] = ()  # what each point says on hover in place of its values

    def hover(self, at: int) -> str:
        """What a point says."""
        if self.labels:
            return self.labels[at]
        ends = f" ({self.low[at]:.4g} to {self.high[at]:.4g})" if self.low and math.isfinite(self.low[at]) else ""
        return f"{self.name}: {self.y[at]:.4g}{ends} at {self.x[at]:.4g}"


def draw_curve(line: Line, x: Scale, y: Scale) -> str:
    """The curve in its unbroken runs, and its points."""
    parts = []
    for run in _runs(line) if line.joined else []:
        points = " ".join(f"{x(line.x[at]):.2f},{y(line.y[at]):.2f}" for at in run)
        parts.append(f'<polyline points="{points}" fill="none" {_stroke(line)}/>')
    if line.marker:
        known = [at for run in _runs(line) for at in run]
        parts += [_mark(line, x(line.x[at]), y(line.y[at]), line.hover(at)) for at in known]
    return "".join(parts)


def draw_interval(line: Line, x: Scale, y: Scale) -> str:
    """A band along a joined curve; whiskers at loose points."""
    known = [at for at in range(len(line.low)) if math.isfinite(line.low[at]) and math.isfinite(line.high[at])]
    if not line.joined:
        ends = [(x(line.x[at]), y(line.low[at]), y(line.high[at])) for at in known]
        return "".join(f'<path d="M{at:.2f} {a:.2f}V{b:.2f}" fill="none" {_stroke(line)}/>' for at, a, b in ends)
    around = [(line.x[at], line.high[at]) for at in known] + [(line.x[at], line.low[at]) for at in reversed(known)]
    points = " ".join(f"{x(a):.2f},{y(b):.2f}" for a, b in around)
    return f'<polygon points="{points}" fill="{line.colour}" fill-opacity="0.14"/>' if known else ""


def draw_key(line: Line, left: float, y: float) -> str:
    """How a curve looks, for the legend: 26 pixels wide."""
    stroke = f'<line x1="{left}" x2="{left + 26}" y1="{y}" y2="{y}" {_stroke(line)}/>' if line.joined else ""
    return stroke + (_mark(line, left + 13, y) if line.marker else "")


def _runs(line: Line) -> list[list[int]]:
    """Indices of the points that belong together: a NaN ends a run."""
    runs: list[list[int]] = [[]]
    for at, value in enumerate(line.y):
        if math.isfinite(value):
            runs[-1].append(at)
        else:
            runs.append([])
    return [run for run in runs if run]


def _stroke(line: Line) -> str:
    return f'stroke="{line.colour}" stroke-width="1.8"{DASHES[line.dash]}'


def _mark(line: Line, x: float, y: float, hover: str = "") -> str:
    told = f"<title>{escape(hover)}</title>" if hover else ""
    if line.marker == "circle":
        return f'<circle cx="{x:.2f}" cy="{y:.2f}" r="3.4" fill="{line.colour}">{told}</circle>'
    points = " ".join(f"{x + SIZE * a:.2f},{y + SIZE * b:.2f}" for a, b in MARKERS[line.marker])
    return f'<polygon points="{points}" fill="{line.colour}">{told}</polygon>'


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
