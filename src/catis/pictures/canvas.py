"""A figure before it has a format: pictures, lines and words with their places in pixels, and its legend."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from catis.pictures.patches import EvictedStyle, Segment, spatial_layout

MARGIN = 10
_SIDE, _TEXT = 26, 14
"""Of the legend: pixels of a sample, and of its words."""
_EVICTED = {"dim": "dark", "white": "white", "black": "black"}
_AROUND = ((0.0, 0.0, 1.0, 0.0), (1.0, 0.0, 1.0, 1.0), (1.0, 1.0, 0.0, 1.0), (0.0, 1.0, 0.0, 0.0))


@dataclass(frozen=True)
class Words:
    """A line of text; (x, y) is where its upper left corner stands."""

    x: float
    y: float
    text: str
    size: int = 13
    colour: str = "#222222"


@dataclass(frozen=True)
class Picture:
    """(3, H, W) pixels in [0, 1], enlarged without smoothing."""

    x: float
    y: float
    width: float
    height: float
    pixels: Tensor


@dataclass(frozen=True)
class Strokes:
    """Lines on a picture that stands at (x, y); their ends are shares of its width and height."""

    x: float
    y: float
    width: float
    height: float
    segments: Sequence[Segment]
    colour: str
    opacity: float
    thickness: float


@dataclass(frozen=True)
class Box:
    """A rectangle, filled, outlined or both."""

    x: float
    y: float
    width: float
    height: float
    fill: str | None = None
    outline: str | None = None


Item = Words | Picture | Strokes | Box


@dataclass(frozen=True)
class Canvas:
    """What is drawn, in this order, on white."""

    width: int
    height: int
    items: tuple[Item, ...]

    def moved(self, x: float, y: float) -> tuple[Item, ...]:
        """Its items at another place."""
        return tuple(replace(item, x=item.x + x, y=item.y + y) for item in self.items)


def below(parts: Sequence[Canvas]) -> Canvas:
    """Canvases below each other.

    Example:
        >>> below([Canvas(10, 5, ()), Canvas(8, 7, (Words(0, 0, "text"),))]).items[0].y
        5
    """
    return in_grid(parts, 1)


def in_grid(parts: Sequence[Canvas], columns: int) -> Canvas:
    """Canvases in rows of so many, each in a field as large as the largest of its row and of all.

    Example:
        >>> part = Canvas(10, 5, ())
        >>> in_grid([part, part, part], 2).width, in_grid([part, part, part], 2).height
        (20, 10)
    """
    width = max(part.width for part in parts)
    items: list[Item] = []
    top = 0
    for start in range(0, len(parts), columns):
        row = parts[start : start + columns]
        items += [item for place, part in enumerate(row) for item in part.moved(place * width, top)]
        top += max(part.height for part in row)
    return Canvas(width * min(columns, len(parts)), top, tuple(items))


def legend(evicted: EvictedStyle) -> Canvas:
    """Three samples in one line, with their words.

    Example:
        >>> [item.text for item in legend("dim").items if isinstance(item, Words)][2]
        'evicted: dark'
    """
    items: list[Item] = []
    x = float(MARGIN)
    for part in legend_parts(evicted):
        items += part.moved(x, 0)
        x += part.width
    return Canvas(round(x), _SIDE + MARGIN, tuple(items))


def legend_parts(evicted: EvictedStyle) -> list[Canvas]:
    """The samples one by one, for a page that wraps; drawn by the function that draws the layouts."""
    ramp = torch.linspace(0.35, 0.85, _SIDE).expand(_SIDE, _SIDE)
    sample = torch.stack([ramp, 0.9 * ramp + 0.05, 0.6 * ramp.T + 0.3])
    samples = (
        (torch.tensor([0]), "kept: as it is"),
        (torch.tensor([0, 0, 0, 0]), "merged into one token: one colour, outlined"),
        (torch.tensor([-1]), f"evicted: {_EVICTED[evicted]}"),
    )
    parts = []
    for provenance, words in samples:
        items: list[Item] = [Picture(0, 0, _SIDE, _SIDE, spatial_layout(sample, provenance, evicted))]
        items.append(Box(-1, -1, _SIDE + 1, _SIDE + 1, outline="#bbbbbb"))
        if len(provenance) > 1:
            items.append(Strokes(0, 0, _SIDE, _SIDE, _AROUND, "#000000", 0.45, 3))
            items.append(Strokes(0, 0, _SIDE, _SIDE, _AROUND, "#ffffff", 0.85, 1))
        items.append(Words(_SIDE + 8, (_SIDE - _TEXT) / 2 - 1, words, _TEXT, "#444444"))
        parts.append(Canvas(round(_SIDE + 8 + 7.2 * len(words) + 22), _SIDE, tuple(items)))
    return parts
