"""Bipartite matching of tokens: who is most similar to whom, and which r edges are best (BASELINES 1.1)."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

__all__ = ["Matching", "alternate", "best_edges", "cosine_sides"]


class Matching(NamedTuple):
    """The r best edges of a bipartite graph, as arrays of positions within the sides A and B.

    Attributes:
        source: (B, r) positions in A that give their token away, best edge first.
        survivor: (B, |A| - r) positions in A that stay, by descending similarity.
        destination: (B, r) positions in B, one for each source.
    """

    source: Any
    survivor: Any
    destination: Any


def alternate(num_prefix: int) -> tuple[slice, slice]:
    """Sides A and B of the patch tokens: even and odd positions of the whole sequence, prefix counted.

    Example:
        >>> list(range(5))[alternate(0)[0]], list(range(5))[alternate(1)[0]]
        ([0, 2, 4], [1, 3])
    """
    first = num_prefix % 2
    return slice(first, None, 2), slice(1 - first, None, 2)


def cosine_sides(unit: Tensor, num_prefix: int) -> Tensor:
    """(B, |A|, |B|) cosine similarity between the two sides of (B, N_p, d) vectors of unit length."""
    side_a, side_b = alternate(num_prefix)
    return torch.bmm(unit[:, side_a], unit[:, side_b].transpose(1, 2))


def best_edges(xp: Any, scores: Tensor, r: int) -> Matching:
    """Keep each A token's best edge, then the r best of these. Ties go to the earlier token, on every device.

    Args:
        xp: Array library, from `arrays_for`.
        scores: (B, |A|, |B|) similarity.
        r: Edges to keep.
    """
    ranked = xp.order(xp.read(scores.amax(-1)), descending=True)
    source, survivor = ranked[:, :r], ranked[:, r:]
    return Matching(source, survivor, xp.partners(scores, source))


def token_ids(position: Any, side: slice) -> Any:
    """Patch indices of positions within a side."""
    return position * 2 + side.start


def side_ids(xp: Any, side: slice, num_patches: int, like: Any) -> Any:
    """(B, |side|) all patch indices of a side, for the batch of `like`."""
    return xp.repeat_rows(xp.arange(side.start, num_patches, 2, like), like)
