"""Pictures of what happened to the patches: merged groups in their mean colour, evicted patches white, heat maps."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from PIL import Image, ImageDraw
from torch import Tensor

__all__ = ["Layout", "denormalise", "heat_map", "layout_figure", "patch_grid", "spatial_layout"]

_MARGIN, _CAPTION = 8, 16
_HALF = (0.5, 0.5, 0.5)
_ORDER = ("s_nf", "s_cls", "score")


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


def spatial_layout(image: Tensor, provenance: Tensor) -> Tensor:
    """The image with every patch in the mean colour of its group, evicted patches white.

    A patch that is alone in its group is drawn as it is.

    Args:
        image: (3, H, W) in [0, 1].
        provenance: (patches,) token of each patch, -1 once evicted.
    """
    rows, columns = patch_grid(len(provenance), *image.shape[-2:])
    owner = _upsample(provenance.cpu().view(rows, columns), image)
    groups = provenance.cpu().clamp_min(0)
    colour = torch.nn.functional.adaptive_avg_pool2d(image, (rows, columns)).flatten(1)
    count = torch.zeros(int(groups.max()) + 1).index_add(0, groups, torch.ones(len(groups)))
    mean = torch.zeros(3, len(count)).index_add(1, groups, colour) / count
    painted = mean[:, owner.clamp_min(0)]
    painted = torch.where(count[owner.clamp_min(0)] == 1, image, painted)
    return torch.where(owner < 0, torch.ones(()), painted)


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


def layout_figure(image: Tensor, layouts: Sequence[Layout]) -> Image.Image:
    """The paper's spatial figure: original and layouts in the first row, one row of heat maps per signal below."""
    first = [("original", image)]
    first += [(f"after block {one.number}: {one.tokens} left", spatial_layout(image, one.provenance)) for one in layouts]
    table: list[list[tuple[str, Tensor | None]]] = [list(first)]
    for name in _ORDER:
        if any(name in one.scores for one in layouts):
            table.append([(name, None), *(_cell(name, one, image) for one in layouts)])
    return _compose(table, image.shape[-1], image.shape[-2])


def _cell(name: str, layout: Layout, image: Tensor) -> tuple[str, Tensor | None]:
    if name not in layout.scores:
        return (f"no {name} in block {layout.number}", None)
    return (f"{name}, block {layout.number}", heat_map(layout.scores[name], image))


def _compose(table: list[list[tuple[str, Tensor | None]]], width: int, height: int) -> Image.Image:
    cell_width, cell_height = width + _MARGIN, height + _CAPTION + _MARGIN
    columns = max(len(row) for row in table)
    canvas = Image.new("RGB", (columns * cell_width + _MARGIN, len(table) * cell_height + _MARGIN), "white")
    pen = ImageDraw.Draw(canvas)
    for y, row in enumerate(table):
        for x, (title, picture) in enumerate(row):
            left, top = _MARGIN + x * cell_width, _MARGIN + y * cell_height
            pen.text((left, top), title, fill="black")
            if picture is not None:
                canvas.paste(_to_pil(picture), (left, top + _CAPTION))
                pen.rectangle((left - 1, top + _CAPTION - 1, left + width, top + _CAPTION + height), outline="#bbbbbb")
    return canvas


def _upsample(grid: Tensor, image: Tensor) -> Tensor:
    height, width = image.shape[-2:]
    return torch.nn.functional.interpolate(grid[None, None].double(), (height, width)).to(grid.dtype)[0, 0]


def _to_pil(picture: Tensor) -> Image.Image:
    return Image.fromarray((picture.permute(1, 2, 0) * 255).round().to(torch.uint8).numpy().astype(np.uint8))
