"""Figures of what happened to the patches: layouts over the depth, block by block as frames, many images on a sheet."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from torch import Tensor

from catis.pictures.canvas import MARGIN, Box, Canvas, Item, Picture, Strokes, Words, below, in_grid, legend
from catis.pictures.patches import EvictedStyle, Outlines, heat_map, outlines_of, spatial_layout

_TITLE, _CAPTION = 15, 18
_LARGE, _SMALL = 240, 160
"""Least width of a picture in a figure, and in a frame or on a sheet; smaller ones are enlarged by a whole factor."""
_SIGNALS = {
    "s_nf": "activation norm",
    "s_cls": "CLS attention, momentum",
    "fused": "what triage goes by",
    "score": "what the method goes by",
}


@dataclass(frozen=True)
class Look:
    """How a figure looks."""

    heat_maps: bool = True  # whether to draw the signals that the method went by
    evicted: EvictedStyle = "dim"  # how evicted patches look
    caption: str = ""  # a line above
    legend: bool = True  # whether to say below what kept, merged and evicted patches look like


@dataclass(frozen=True)
class Layout:
    """State of one image after a block."""

    number: int  # block number, counted from 1; 0 before the first
    tokens: int  # patch tokens left
    provenance: Tensor  # (patches,) token of each patch, -1 once evicted
    scores: Mapping[str, Tensor]  # signals at the patches, before this block's reduction; NaN where a patch had gone


def layout_figure(image: Tensor, layouts: Sequence[Layout], look: Look) -> Canvas:
    """The paper's spatial figure: original and layouts in the first row, one row of heat maps per signal below.

    Example:
        >>> import torch
        >>> layout_figure(torch.zeros(3, 224, 224), [], Look(legend=False)).width
        468
    """
    first = [_Cell("original", image), *(_layout_cell(image, layout, look.evicted) for layout in layouts)]
    rows = _signal_rows(image, layouts) if look.heat_maps else []
    return _figure([first, *rows], image, look)


def layout_frames(image: Tensor, layouts: Sequence[Layout], look: Look) -> list[Canvas]:
    """Frames of a moving picture, one per layout: the original, the layout, and its signals, side by side."""
    known = [name for name in _SIGNALS if any(name in _named(layout.scores) for layout in layouts)]
    frames = []
    for layout in layouts:
        scores = _named(layout.scores)
        maps = [_heat_cell(name, scores, layout.number, image) for name in known] if look.heat_maps else []
        frames.append(
            _figure([[_Cell("original", image), _layout_cell(image, layout, look.evicted), *maps]], image, look)
        )
    return frames


def layout_cells(image: Tensor, layout: Layout, evicted: EvictedStyle = "dim") -> list[Canvas]:
    """The original, the layout and a heat map for each signal, as canvases of their own, for a page that wraps."""
    scores = _named(layout.scores)
    maps = [_heat_cell(name, scores, layout.number, image) for name in _SIGNALS if name in scores]
    cells = [_Cell("original", image), _layout_cell(image, layout, evicted), *maps]
    return [_compose([[cell]], image, _LARGE, "") for cell in cells]


def contact_sheet(
    images: Sequence[Tensor], layouts: Sequence[Layout], captions: Sequence[str], evicted: EvictedStyle = "dim"
) -> Canvas:
    """Many images on one sheet: each beside its layout after the same block, with its caption above."""
    pairs = [
        _compose([[_Cell("", image), _layout_cell(image, layout, evicted, titled=False)]], image, _SMALL, caption)
        for image, layout, caption in zip(images, layouts, captions, strict=True)
    ]
    columns = max(1, round(math.sqrt(len(pairs) * pairs[0].height / pairs[0].width * 1.4)))  # a little wider than high
    told = f"after block {layouts[0].number}: {layouts[0].tokens} of {len(layouts[0].provenance)} patch tokens left"
    head = Canvas(MARGIN, _CAPTION + 2 * MARGIN, (Words(MARGIN, MARGIN, told, _CAPTION),))
    return below([head, in_grid(pairs, columns), legend(evicted)])


@dataclass(frozen=True)
class _Cell:
    """One field of a figure: a title, and a picture with lines or a note below it."""

    title: str
    picture: Tensor | None = None
    outlines: Outlines | None = None
    note: str = ""


def _layout_cell(image: Tensor, layout: Layout, evicted: EvictedStyle, titled: bool = True) -> _Cell:
    title = f"after block {layout.number}: {layout.tokens} left" if layout.number else f"{layout.tokens} patch tokens"
    drawn = spatial_layout(image, layout.provenance, evicted)
    return _Cell(title if titled else "", drawn, outlines_of(layout.provenance, *image.shape[-2:]))


def _signal_rows(image: Tensor, layouts: Sequence[Layout]) -> list[list[_Cell]]:
    """A row of heat maps for each signal that any of the blocks went by."""
    signals = [_named(layout.scores) for layout in layouts]
    rows = []
    for name, meaning in _SIGNALS.items():
        if any(name in scores for scores in signals):
            row = [_heat_cell(name, scores, at.number, image) for scores, at in zip(signals, layouts, strict=True)]
            rows.append([_Cell(name, note=f"{meaning}\nblue low, yellow high\nwhite: gone or none"), *row])
    return rows


def _named(scores: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """A score that fuses two signals is called by that name."""
    fused = {"s_nf", "s_cls"} <= scores.keys()
    return {"fused" if fused and name == "score" else name: values for name, values in scores.items()}


def _heat_cell(name: str, scores: Mapping[str, Tensor], number: int, image: Tensor) -> _Cell:
    if name not in scores:
        return _Cell(f"no {name} in block {number}")
    return _Cell(f"{name}, block {number}", heat_map(scores[name], image))


def _figure(table: Sequence[Sequence[_Cell]], image: Tensor, look: Look, least: int = _LARGE) -> Canvas:
    body = _compose(table, image, least, look.caption)
    return below([body, legend(look.evicted)]) if look.legend else body


def _compose(table: Sequence[Sequence[_Cell]], image: Tensor, least: int, caption: str) -> Canvas:
    """Cells in rows, each as wide as the image, enlarged by a whole factor until it is `least` wide."""
    factor = max(1, math.ceil(least / image.shape[-1]))
    height, width = (factor * side for side in image.shape[-2:])
    title = _TITLE + 5 if any(cell.title for row in table for cell in row) else 0
    columns, step = max(len(row) for row in table), height + title + MARGIN
    head = _CAPTION + 8 if caption else 0
    items: list[Item] = [Words(MARGIN, MARGIN, caption, _CAPTION)] if caption else []
    for y, row in enumerate(table):
        for x, cell in enumerate(row):
            items += _place(cell, MARGIN + x * (width + MARGIN), head + MARGIN + y * step, title, (width, height))
    return Canvas(columns * (width + MARGIN) + MARGIN, head + len(table) * step + MARGIN, tuple(items))


def _place(cell: _Cell, x: float, y: float, title: int, size: tuple[int, int]) -> list[Item]:
    top = y + title
    items: list[Item] = [Words(x, y, cell.title, _TITLE)] if cell.title else []
    items += [
        Words(x, top + at * (_TITLE + 5), line, _TITLE, "#6a6a6a") for at, line in enumerate(cell.note.splitlines())
    ]
    if cell.picture is not None:
        items.append(Picture(x, top, *size, cell.picture))
        if cell.outlines is not None:  # a dark line under a lighter one is seen on bright and on dark images
            items.append(Strokes(x, top, *size, cell.outlines.edges, "#ffffff", 0.16, 1))
            items.append(Strokes(x, top, *size, cell.outlines.groups, "#000000", 0.45, 3))
            items.append(Strokes(x, top, *size, cell.outlines.groups, "#ffffff", 0.85, 1))
        items.append(Box(x - 1, top - 1, size[0] + 1, size[1] + 1, outline="#bbbbbb"))
    return items
