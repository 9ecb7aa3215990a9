"""Line and scatter charts as SVG, the same bytes for the same numbers; dark on a dark screen, light in print."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from catis.report.marks import (
    AXIS,
    Line,
    Scale,
    across,
    below,
    draw_curve,
    draw_interval,
    draw_key,
    span,
    ticks,
)

WIDTH, HEIGHT = 420, 280
LEFT, RIGHT, TOP, BOTTOM = 54, 14, 34, 44
LEGEND_ROW, LEGEND_ITEM = 22, 140
DARK = (
    "<style>@media screen and (prefers-color-scheme: dark) { .chart { fill: #dddddd } .chart .paper { fill: #16181c } "
    ".chart .grid { stroke: #3a3d42 } .chart .axis { stroke: #dddddd } }</style>"
)


@dataclass(frozen=True)
class Panel:
    """One pair of axes."""

    title: str  # above it
    x_label: str  # with its unit
    y_label: str  # with its unit
    lines: Sequence[Line]
    y_range: Sequence[float] = ()  # values that the axis must reach, where the curves do not; empty for none


def draw(panels: Sequence[Panel], title: str, columns: int = 2) -> str:
    """One picture for a file: panels in rows, and one legend below.

    Example:
        >>> line = Line("a", [0, 1], [2.0, 3.0], "#cc3311", "circle")
        >>> draw([Panel("p", "x", "y", [line])], "t").startswith("<svg")
        True
    """
    columns = min(columns, len(panels))
    legend = _entries(panels)
    item = max([LEGEND_ITEM, *(44 + 6 * len(name) for name in legend)])
    each = max((columns * WIDTH - LEFT) // item, 1)
    top = math.ceil(len(panels) / columns) * HEIGHT
    body = [
        f'<g transform="translate({at % columns * WIDTH},{at // columns * HEIGHT})">{_panel(panel)}</g>'
        for at, panel in enumerate(panels)
    ]
    for at, (name, lines) in enumerate(legend.items()):
        left, y = LEFT + at % each * item, top + 14 + at // each * LEGEND_ROW
        body.append("".join(draw_key(line, left, y) for line in lines))
        body.append(f'<text x="{left + 33}" y="{y + 4}">{escape(name)}</text>')
    return _svg(body, columns * WIDTH, top + math.ceil(len(legend) / each) * LEGEND_ROW + 10, title)


def draw_wrapping(panels: Sequence[Panel], title: str) -> str:
    """The same for a page, as HTML: each panel for itself, one below another on a phone, and the legend as text."""
    drawn = "".join(_svg([_panel(panel)], WIDTH, HEIGHT, f"{title}: {panel.title}") for panel in panels)
    keys = "".join(
        f'<span><svg class="chart" viewBox="0 0 26 12" width="26" height="12" aria-hidden="true">'
        f"{''.join(draw_key(line, 0, 6) for line in lines)}</svg> {escape(name)}</span>"
        for name, lines in _entries(panels).items()
    )
    return f'<div class="panels">{drawn}</div><div class="legend">{keys}</div>'


def _svg(body: Sequence[str], width: int, height: int, title: str) -> str:
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="chart" viewBox="0 0 {width} {height}" width="{width}" '
        f'height="{height}" role="img" font-family="system-ui, Helvetica, Arial, sans-serif" font-size="12" '
        f'fill="{AXIS}">'
    )
    paper = f'<rect class="paper" width="{width}" height="{height}" fill="#ffffff"/>'
    return "\n".join([head, f"<title>{escape(title)}</title>", DARK, paper, *body, "</svg>", ""])


def _panel(panel: Panel) -> str:
    left, right = span(value for line in panel.lines for value in line.x)
    values = [value for line in panel.lines for value in (*line.y, *line.low, *line.high)]
    rows = ticks(*span([*values, *panel.y_range]))
    columns = [tick for tick in ticks(left, right, 7) if left <= tick <= right]
    x = Scale(left, right, LEFT, WIDTH - RIGHT)
    y = Scale(rows[0], rows[-1], HEIGHT - BOTTOM, TOP)
    centre, middle = (LEFT + WIDTH - RIGHT) / 2, (TOP + HEIGHT - BOTTOM) / 2
    return "".join(
        [
            f'<text x="{LEFT}" y="20" font-weight="600">{escape(panel.title)}</text>',
            *(across(tick, x, y) for tick in rows),
            *(below(tick, x, y) for tick in columns),
            f'<text x="{centre:.1f}" y="{HEIGHT - 8}" text-anchor="middle">{escape(panel.x_label)}</text>',
            f'<text transform="translate(14,{middle:.1f}) rotate(-90)" text-anchor="middle">'
            f"{escape(panel.y_label)}</text>",
            *(draw_interval(line, x, y) for line in panel.lines),
            *(draw_curve(line, x, y) for line in panel.lines),
        ]
    )


def _entries(panels: Sequence[Panel]) -> dict[str, list[Line]]:
    """What stands in the legend: each name once, with its curve; points and the curve fitted to them may share one."""
    entries: dict[str, list[Line]] = {}
    for line in (line for panel in panels for line in panel.lines):
        entries.setdefault(line.name, []).append(line)
    return {name: lines[:2] for name, lines in entries.items()}
