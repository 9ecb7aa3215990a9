"""What became of the patches of an image: groups in their mean colour and outlined, evicted patches dim, heat maps."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby
from typing import Literal

import torch
from torch import Tensor

from catis.data.preprocessing import Preprocessing

EvictedStyle = Literal["dim", "white", "black"]
"""How evicted patches are drawn; "dim" leaves a quarter of their light."""
_LIGHT: Mapping[EvictedStyle, tuple[float, float]] = {"dim": (0.25, 0.0), "white": (0.0, 1.0), "black": (0.0, 0.0)}

Segment = tuple[float, float, float, float]
"""x1, y1, x2, y2 of a line along the grid, as shares of the image's width and height."""


def denormalise(images: Tensor, preprocessing: Preprocessing) -> Tensor:
    """Inputs back in [0, 1], the inverse of the mean and std that they were normalised with."""
    mean, std = (torch.tensor(values).view(3, 1, 1) for values in (preprocessing.mean, preprocessing.std))
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


def spatial_layout(image: Tensor, provenance: Tensor, evicted: EvictedStyle = "dim") -> Tensor:
    """The (3, H, W) image with each patch in the mean colour of its group, evicted patches (-1) dim, white or black.

    A patch that is alone in its group is drawn as it is.
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


@dataclass(frozen=True)
class Outlines:
    """Lines between patches that no longer share a token."""

    groups: tuple[Segment, ...]  # around merged groups, wherever a group meets anything else
    edges: tuple[Segment, ...]  # between two patches of which neither is merged; none between two evicted ones


def outlines_of(provenance: Tensor, height: int, width: int) -> Outlines:
    """Lines of one image.

    Example:
        >>> import torch
        >>> outlines_of(torch.tensor([0, 0, 1, -1]), 32, 32)  # two merged above, one kept and one evicted below
        Outlines(groups=((0.0, 0.5, 1.0, 0.5),), edges=((0.5, 0.5, 0.5, 1.0),))
    """
    rows, columns = patch_grid(len(provenance), height, width)
    counts = (provenance.cpu() + 1).bincount()
    counts[0] = 0  # the evicted share no token
    owner = (provenance.cpu() + 1).view(rows, columns)
    merged = counts[owner] > 1
    across = [(s / columns, k / rows, e / columns, k / rows, kind) for k, s, e, kind in _between(owner, merged)]
    down = [(k / columns, s / rows, k / columns, e / rows, kind) for k, s, e, kind in _between(owner.T, merged.T)]
    lines = [*down, *across]
    groups, edges = (tuple(line[:4] for line in lines if line[4] == kind) for kind in ("group", "edge"))
    return Outlines(groups, edges)


def _between(owner: Tensor, merged: Tensor) -> Iterator[tuple[int, int, int, str]]:
    """k, start, end and kind of the lines above each row k: a group's end, or an edge; none inside a token.

    Neighbours of one kind make one line: fewer and longer ones make smaller files.
    """
    for k in range(1, len(owner)):
        pairs = zip((owner[k - 1] != owner[k]).tolist(), (merged[k - 1] | merged[k]).tolist(), strict=True)
        start = 0
        for kind, run in groupby("" if not apart else "group" if group else "edge" for apart, group in pairs):
            end = start + len(list(run))
            if kind:
                yield k, start, end, kind
            start = end


def _upsample(grid: Tensor, image: Tensor) -> Tensor:
    height, width = image.shape[-2:]
    return torch.nn.functional.interpolate(grid[None, None].double(), (height, width)).to(grid.dtype)[0, 0]
