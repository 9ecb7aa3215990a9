"""Where one token ends and the next begins: lines around the groups of merged patches, and between single ones."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from catis.pictures.patches import patch_grid

Segment = tuple[float, float, float, float]
"""x1, y1, x2, y2 of a line along the grid, as shares of the image's width and height."""


@dataclass(frozen=True)
class Outlines:
    """Lines between patches that no longer share a token.

    Attributes:
        groups: Around merged groups, wherever a group meets anything else.
        edges: Between two patches of which neither is merged; none between two evicted ones.
    """

    groups: tuple[Segment, ...]
    edges: tuple[Segment, ...]


def outlines_of(provenance: Tensor, height: int, width: int) -> Outlines:
    """Lines of one image.

    Args:
        provenance: (patches,) token of each patch, -1 once evicted.
        height: Of the image, in pixels.
        width: Of the image.

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
    down = [
        (k / columns, s / rows, k / columns, e / rows, kind)
        for k in range(1, columns)
        for s, e, kind in _runs(_kinds(owner[:, k - 1], owner[:, k], merged[:, k - 1] | merged[:, k]))
    ]
    across = [
        (s / columns, k / rows, e / columns, k / rows, kind)
        for k in range(1, rows)
        for s, e, kind in _runs(_kinds(owner[k - 1], owner[k], merged[k - 1] | merged[k]))
    ]
    lines = [*down, *across]
    groups, edges = (tuple(line[:4] for line in lines if line[4] == kind) for kind in ("group", "edge"))
    return Outlines(groups, edges)


def _kinds(first: Tensor, other: Tensor, merged: Tensor) -> list[str]:
    """What stands between neighbours: nothing inside a token or among the evicted, else a group's end or an edge."""
    pairs = zip((first != other).tolist(), merged.tolist(), strict=True)
    return ["" if not apart else "group" if group else "edge" for apart, group in pairs]


def _runs(kinds: list[str]) -> list[tuple[int, int, str]]:
    """Start, end and kind of the stretches that have one: fewer and longer lines make smaller files."""
    runs: list[tuple[int, int, str]] = []
    for place, kind in enumerate(kinds):
        if runs and runs[-1][1] == place and runs[-1][2] == kind:
            runs[-1] = (runs[-1][0], place + 1, kind)
        elif kind:
            runs.append((place, place + 1, kind))
    return runs
