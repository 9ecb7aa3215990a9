"""Bipartite matching of tokens: who is most similar to whom, and which r edges are best (docs/methods.md, ToMe)."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from catis.core.order import order_by, place_of_best
from catis.core.rows import take_rows


class Matching(NamedTuple):
    """The r best edges of a bipartite graph, as positions within the sides A and B."""

    source: Tensor  # (B, r) positions in A that give their token away, best edge first
    survivor: Tensor  # (B, |A| - r) positions in A that stay, by descending similarity
    destination: Tensor  # (B, r) positions in B, one for each source


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


def best_edges(scores: Tensor, r: int) -> Matching:
    """Keep each A token's best edge, then the r best of these. Ties go to the earlier token, on every device.

    Example:
        >>> best_edges(torch.tensor([[[0.1, 0.2], [0.9, 0.3]]]), 1)
        Matching(source=tensor([[1]]), survivor=tensor([[0]]), destination=tensor([[0]]))
    """
    ranked = order_by(scores.amax(-1), descending=True)
    source, survivor = ranked[:, :r], ranked[:, r:]
    return Matching(source, survivor, best_partners(scores, source))


def best_partners(scores: Tensor, source: Tensor) -> Tensor:
    """(B, r) column of the best score in each of the (B, r) rows named; looks at these rows alone.

    Example:
        >>> best_partners(torch.tensor([[[0.1, 0.2], [0.9, 0.3]]]), torch.tensor([[1]])).tolist()
        [[0]]
    """
    return place_of_best(take_rows(scores, source))


def token_ids(position: Tensor, side: slice) -> Tensor:
    """Patch indices of positions within a side."""
    return position * 2 + int(side.start)


def side_ids(side: slice, num_patches: int, like: Tensor) -> Tensor:
    """(B, |side|) all patch indices of a side, for the batch of `like`."""
    return torch.arange(side.start, num_patches, 2, device=like.device).expand(like.shape[0], -1)
