"""The legend below every figure: what a kept, a merged and an evicted patch look like."""

from __future__ import annotations

import torch

from catis.pictures.canvas import MARGIN, Box, Canvas, Item, Picture, Strokes, Words
from catis.pictures.patches import EvictedStyle, spatial_layout

_SIDE, _TEXT = 26, 14
_EVICTED = {"dim": "dark", "white": "white", "black": "black"}


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


_AROUND = ((0.0, 0.0, 1.0, 0.0), (1.0, 0.0, 1.0, 1.0), (1.0, 1.0, 0.0, 1.0), (0.0, 1.0, 0.0, 0.0))
