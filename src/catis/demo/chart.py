"""A small chart writer: line charts as SVG text, the same bytes for the same numbers."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape

__all__ = ["Line", "Panel", "draw", "ticks"]

WIDTH, HEIGHT = 420, 280
LEFT, RIGHT, TOP, BOTTOM = 54, 14, 34, 44
LEGEND_ROW, LEGEND_ITEM = 22, 140
INK, GRID = "#333333", "#e4e4e4"


@dataclass(frozen=True)
class Line:
    """One curve.

    Attributes:
        name: In the legend; curves of one name in several panels share an entry.
        x: Positions.
        y: Values; the curve is interrupted at NaN.
        colour: Any SVG colour.
        marker: "circle", "square", "triangle", "diamond" or "" for none.
        dash: Dashed.
        joined: Whether to join the points.
        low: Lower end of a shaded band, one per point; empty for none.
        high: Upper end.
    """

    name: str
    x: Sequence[float]
    y: Sequence[float]
    colour: str
    marker: str = ""
    dash: bool = False
    joined: bool = True
    low: Sequence[float] = ()
    high: Sequence[float] = ()


@dataclass(frozen=True)
class Panel:
    """One pair of axes.

    Attributes:
        title: Above it.
        x_label: With its unit.
        y_label: With its unit.
        lines: Curves.
    """

    title: str
    x_label: str
    y_label: str
    lines: Sequence[Line]


def draw(panels: Sequence[Panel], title: str, columns: int = 2) -> str:
    """Panels in rows, and one legend below.

    Example:
        >>> line = Line("a", [0, 1], [2.0, 3.0], "#cc3311", "circle")
        >>> draw([Panel("p", "x", "y", [line])], "t").startswith("<svg")
        True
    """
    columns = min(columns, len(panels))
    rows = math.ceil(len(panels) / columns)
    legend = _legend([line for panel in panels for line in panel.lines], columns * WIDTH, rows * HEIGHT)
    width, height = columns * WIDTH, rows * HEIGHT + legend.height
    body = [
        f'<g transform="translate({at % columns * WIDTH},{at // columns * HEIGHT})">{_panel(panel)}</g>'
        for at, panel in enumerate(panels)
    ]
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        f'role="img" font-family="system-ui, Helvetica, Arial, sans-serif" font-size="12" fill="{INK}">'
    )
    background = f'<rect width="{width}" height="{height}" fill="#ffffff"/>'
    return "\n".join([head, f"<title>{escape(title)}</title>", background, *body, legend.svg, "</svg>", ""])


def ticks(low: float, high: float, wanted: int = 5) -> list[float]:
    """Round numbers that cover a range.

    Example:
        >>> ticks(0.0, 0.93)
        [0.0, 0.2, 0.4, 0.6, 0.8, 1.0]
    """
    span = max(high - low, 1e-9)
    unit = 10.0 ** math.floor(math.log10(span / wanted))
    step = next(unit * m for m in (1, 2, 5, 10) if span / (unit * m) <= wanted)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [round(step * k, 10) for k in range(first, max(last, first + 1) + 1)]


@dataclass(frozen=True)
class _Scale:
    """From values to pixels."""

    low: float
    high: float
    start: float
    end: float

    def __call__(self, value: float) -> float:
        return self.start + (value - self.low) / (self.high - self.low) * (self.end - self.start)


def _panel(panel: Panel) -> str:
    left, right = _range(value for line in panel.lines for value in line.x)
    xs = [tick for tick in ticks(left, right, 7) if left <= tick <= right]
    ys = ticks(*_range(value for line in panel.lines for value in (*line.y, *line.low, *line.high)))
    x = _Scale(left, right, LEFT, WIDTH - RIGHT)
    y = _Scale(ys[0], ys[-1], HEIGHT - BOTTOM, TOP)
    parts = [f'<text x="{LEFT}" y="20" font-weight="600">{escape(panel.title)}</text>']
    parts += [_across(tick, y, x) for tick in ys] + [_below(tick, x, y) for tick in xs]
    middle = (LEFT + WIDTH - RIGHT) / 2, (TOP + HEIGHT - BOTTOM) / 2
    parts.append(f'<text x="{middle[0]:.1f}" y="{HEIGHT - 8}" text-anchor="middle">{escape(panel.x_label)}</text>')
    parts.append(
        f'<text transform="translate(14,{middle[1]:.1f}) rotate(-90)" text-anchor="middle">'
        f"{escape(panel.y_label)}</text>"
    )
    parts += [_band(line, x, y) for line in panel.lines if line.low] + [_curve(line, x, y) for line in panel.lines]
    return "".join(parts)


def _range(values: Iterable[float]) -> tuple[float, float]:
    known = [value for value in values if math.isfinite(value)]
    if not known:
        return 0.0, 1.0
    return (min(known), max(known)) if min(known) < max(known) else (known[0] - 0.5, known[0] + 0.5)


def _across(tick: float, y: _Scale, x: _Scale) -> str:
    at = y(tick)
    return (
        f'<line x1="{x.start:.1f}" x2="{x.end:.1f}" y1="{at:.2f}" y2="{at:.2f}" stroke="{GRID}"/>'
        f'<text x="{x.start - 6:.1f}" y="{at + 4:.2f}" text-anchor="end" font-size="11">{tick:g}</text>'
    )


def _below(tick: float, x: _Scale, y: _Scale) -> str:
    at = x(tick)
    return (
        f'<line x1="{at:.2f}" x2="{at:.2f}" y1="{y.start:.1f}" y2="{y.start + 4:.1f}" stroke="{INK}"/>'
        f'<text x="{at:.2f}" y="{y.start + 17:.1f}" text-anchor="middle" font-size="11">{tick:g}</text>'
    )


def _runs(line: Line) -> list[list[int]]:
    """Indices of the points that belong together: a NaN ends a run."""
    runs: list[list[int]] = [[]]
    for at, value in enumerate(line.y):
        if math.isfinite(value):
            runs[-1].append(at)
        else:
            runs.append([])
    return [run for run in runs if run]


def _band(line: Line, x: _Scale, y: _Scale) -> str:
    known = [at for at in range(len(line.x)) if math.isfinite(line.low[at]) and math.isfinite(line.high[at])]
    around = [(line.x[at], line.high[at]) for at in known] + [(line.x[at], line.low[at]) for at in reversed(known)]
    points = " ".join(f"{x(a):.2f},{y(b):.2f}" for a, b in around)
    return f'<polygon points="{points}" fill="{line.colour}" fill-opacity="0.12"/>'


def _curve(line: Line, x: _Scale, y: _Scale) -> str:
    parts = []
    for run in _runs(line) if line.joined else []:
        points = " ".join(f"{x(line.x[at]):.2f},{y(line.y[at]):.2f}" for at in run)
        parts.append(f'<polyline points="{points}" fill="none" {_stroke(line)}/>')
    if line.marker:
        parts += [_mark(line, x(line.x[at]), y(line.y[at])) for run in _runs(line) for at in run]
    return "".join(parts)


def _stroke(line: Line) -> str:
    return f'stroke="{line.colour}" stroke-width="1.8"' + (' stroke-dasharray="5 4"' if line.dash else "")


def _mark(line: Line, x: float, y: float) -> str:
    shapes = {"square": (-1, -1, 1, -1, 1, 1, -1, 1), "triangle": (0, -1.2, 1.2, 1, -1.2, 1)}
    shapes["diamond"] = (0, -1.4, 1.4, 0, 0, 1.4, -1.4, 0)
    if line.marker == "circle":
        return f'<circle cx="{x:.2f}" cy="{y:.2f}" r="3.4" fill="{line.colour}"/>'
    corners = shapes[line.marker]
    points = " ".join(f"{x + 3.2 * a:.2f},{y + 3.2 * b:.2f}" for a, b in zip(corners[::2], corners[1::2], strict=True))
    return f'<polygon points="{points}" fill="{line.colour}"/>'


@dataclass(frozen=True)
class _Legend:
    svg: str
    height: int


def _legend(lines: Sequence[Line], width: int, top: int) -> _Legend:
    entries: dict[str, list[Line]] = {}
    for line in lines:
        entries.setdefault(line.name, []).append(line)
    size = max([LEGEND_ITEM, *(44 + 6 * len(name) for name in entries)])
    each = max((width - LEFT) // size, 1)
    parts = []
    for at, (name, same) in enumerate(entries.items()):
        left, y = LEFT + at % each * size, top + 14 + at // each * LEGEND_ROW
        for line in same[:2]:  # points and the curve fitted to them may share a name
            if line.joined:
                parts.append(f'<line x1="{left}" x2="{left + 26}" y1="{y}" y2="{y}" {_stroke(line)}/>')
            parts.append(_mark(line, left + 13, y) if line.marker else "")
        parts.append(f'<text x="{left + 33}" y="{y + 4}">{escape(name)}</text>')
    return _Legend("".join(parts), math.ceil(len(entries) / each) * LEGEND_ROW + 10)
