"""Pictures of what happened to the patches: merged groups in their mean colour, evicted patches blank, heat maps."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from PIL import Image, ImageDraw
from torch import Tensor

__all__ = [
    "EvictedStyle",
    "Layout",
    "denormalise",
    "heat_map",
    "layout_figure",
    "patch_grid",
    "spatial_layout",
    "stack",
]

_MARGIN, _CAPTION, _SMALLEST = 8, 16, 160
EvictedStyle = Literal["white", "black", "dim"]
"""How evicted patches are drawn; "dim" leaves a quarter of their light."""
_LIGHT: Mapping[EvictedStyle, tuple[float, float]] = {"white": (0.0, 1.0), "black": (0.0, 0.0), "dim": (0.25, 0.0)}
_HALF = (0.5, 0.5, 0.5)
_SIGNALS = {
    "s_nf": "activation norm",
    "s_cls": "CLS attention, momentum",
    "fused": "what triage goes by",
    "score": "what the method goes by",
}


@dataclass(frozen=True)
class Layout:
    """State of one image after a block.

    Attributes:
        number: Block number, counted from 1.
        tokens: Patch tokens left.
        provenance: (patches,) token of each patch, -1 once evicted.
        scores: Signals at the patches, before this block's reduction; NaN where a patch had gone.
    """

    number: int
    tokens: int
    provenance: Tensor
    scores: Mapping[str, Tensor]


def denormalise(images: Tensor, config: Mapping[str, Any]) -> Tensor:
    """Inputs back in [0, 1], by the mean and std of a timm config (0.5 where it has none)."""
    mean, std = (torch.tensor(config.get(key) or _HALF).view(3, 1, 1) for key in ("mean", "std"))
    return (images.detach().float().cpu() * std + mean).clamp(0, 1)


def patch_grid(num_patches: int, height: int, width: int) -> tuple[int, int]:
    """Rows and columns of the patch grid of an image.

    Example:
        >>> patch_grid(98, 224, 112)
        (14, 7)
    """
    rows = round(math.sqrt(num_patches * height / width))
    if rows == 0 or num_patches % rows:
        raise ValueError(f"{num_patches} patches do not tile an image of {height} x {width} pixels")
    return rows, num_patches // rows


def spatial_layout(image: Tensor, provenance: Tensor, evicted: EvictedStyle = "white") -> Tensor:
    """The image with every patch in the mean colour of its group, evicted patches white, black or dim.

    A patch that is alone in its group is drawn as it is.

    Args:
        image: (3, H, W) in [0, 1].
        provenance: (patches,) token of each patch, -1 once evicted.
        evicted: How evicted patches are drawn.
    """
    if evicted not in _LIGHT:
        raise ValueError(f"evicted={evicted!r}: expected one of {', '.join(_LIGHT)}")
    rows, columns = patch_grid(len(provenance), *image.shape[-2:])
    group = provenance.cpu() + 1  # group 0 is the evicted
    owner = _upsample(group.view(rows, columns), image).flatten()
    members, pixels = group.bincount(), owner.bincount()
    colours = torch.zeros(3, len(pixels), dtype=torch.float64).index_add(1, owner, image.flatten(1).double())
    mean = (colours / pixels).to(image.dtype)
    painted = torch.where(members[owner] == 1, image.flatten(1), mean[:, owner])
    share, light = _LIGHT[evicted]
    return torch.where(owner == 0, share * image.flatten(1) + light, painted).view_as(image)


def heat_map(values: Tensor, image: Tensor) -> Tensor:
    """(3, H, W) picture of one value per patch, dark blue (low) to yellow (high); white where there is none."""
    rows, columns = patch_grid(len(values), *image.shape[-2:])
    values = values.cpu().float()
    known = values[values.isfinite()]
    low, high = (known.min(), known.max()) if len(known) else (torch.zeros(()), torch.ones(()))
    level = _upsample(((values - low) / (high - low).clamp_min(1e-12)).view(rows, columns), image)
    stops = torch.tensor([[0.12, 0.10, 0.35], [0.20, 0.45, 0.60], [0.40, 0.75, 0.45], [0.98, 0.90, 0.25]])
    place = level.nan_to_num(0.0) * (len(stops) - 1)
    lower = place.floor().long().clamp_max(len(stops) - 2)
    colour = torch.lerp(stops[lower], stops[lower + 1], (place - lower).unsqueeze(-1)).permute(2, 0, 1)
    return torch.where(level.isnan(), torch.ones(()), colour)


def layout_figure(
    image: Tensor,
    layouts: Sequence[Layout],
    *,
    heat_maps: bool = True,
    evicted: EvictedStyle = "white",
    caption: str = "",
) -> Image.Image:
    """The paper's spatial figure: original and layouts in the first row, one row of heat maps per signal below.

    Small images are enlarged by a whole factor, so that captions fit.
    """
    first = [_Cell("original", image)]
    for layout in layouts:
        title = f"after block {layout.number}: {layout.tokens} left"
        first.append(_Cell(title, spatial_layout(image, layout.provenance, evicted)))
    rows = _signal_rows(image, layouts) if heat_maps else []
    return _compose([first, *rows], image.shape[-1], image.shape[-2], caption)


def _signal_rows(image: Tensor, layouts: Sequence[Layout]) -> list[list[_Cell]]:
    """A row of heat maps for each signal that any of the blocks went by."""
    signals = [_named(layout.scores) for layout in layouts]
    rows = []
    for name, meaning in _SIGNALS.items():
        if any(name in scores for scores in signals):
            row = [_heat_cell(name, scores, at.number, image) for scores, at in zip(signals, layouts, strict=True)]
            rows.append([_Cell(name, note=f"{meaning}\nblue low, yellow high\nwhite: gone or none"), *row])
    return rows


def stack(figures: Sequence[Image.Image]) -> Image.Image:
    """Figures below each other."""
    size = max(figure.width for figure in figures), sum(figure.height for figure in figures)
    canvas = Image.new("RGB", size, "white")
    top = 0
    for figure in figures:
        canvas.paste(figure, (0, top))
        top += figure.height
    return canvas


@dataclass(frozen=True)
class _Cell:
    """One field of a figure: a title, and a picture or a note below it."""

    title: str
    picture: Tensor | None = None
    note: str = ""


def _named(scores: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """A score that fuses two signals is called by that name."""
    fused = {"s_nf", "s_cls"} <= scores.keys()
    return {"fused" if fused and name == "score" else name: values for name, values in scores.items()}


def _heat_cell(name: str, scores: Mapping[str, Tensor], number: int, image: Tensor) -> _Cell:
    if name not in scores:
        return _Cell(f"no {name} in block {number}")
    return _Cell(f"{name}, block {number}", heat_map(scores[name], image))


def _compose(table: Sequence[Sequence[_Cell]], width: int, height: int, caption: str) -> Image.Image:
    factor = max(1, math.ceil(_SMALLEST / width))
    width, height = factor * width, factor * height
    cell_width, cell_height = width + _MARGIN, height + _CAPTION + _MARGIN
    columns = max(len(row) for row in table)
    head = _CAPTION if caption else 0
    canvas = Image.new("RGB", (columns * cell_width + _MARGIN, head + len(table) * cell_height + _MARGIN), "white")
    pen = ImageDraw.Draw(canvas)
    pen.text((_MARGIN, _MARGIN), caption, fill="black")
    for y, row in enumerate(table):
        for x, cell in enumerate(row):
            left, top = _MARGIN + x * cell_width, head + _MARGIN + y * cell_height
            pen.text((left, top), cell.title, fill="black")
            pen.text((left, top + _CAPTION), cell.note, fill="#777777")
            if cell.picture is not None:
                picture = _to_pil(cell.picture).resize((width, height), Image.Resampling.NEAREST)
                canvas.paste(picture, (left, top + _CAPTION))
                pen.rectangle((left - 1, top + _CAPTION - 1, left + width, top + _CAPTION + height), outline="#bbbbbb")
    return canvas


def _upsample(grid: Tensor, image: Tensor) -> Tensor:
    height, width = image.shape[-2:]
    return torch.nn.functional.interpolate(grid[None, None].double(), (height, width)).to(grid.dtype)[0, 0]


def _to_pil(picture: Tensor) -> Image.Image:
    return Image.fromarray((picture.permute(1, 2, 0) * 255).round().to(torch.uint8).numpy().astype(np.uint8))
