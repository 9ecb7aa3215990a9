"""What a reduced model's tokens should be: the vanilla model's tokens, averaged over the patches each stands for."""

from __future__ import annotations

import torch
from torch import Tensor

from catis.core.state import TokenState


def group_means(vanilla: Tensor, state: TokenState, num_patches: int) -> Tensor:
    """(B, P + N_p, C) targets of the tokens present, from (B, P + patches at the start, C) vanilla tokens.

    A prefix token's target is vanilla's own, a patch token's the mean over its patches; what was evicted has no part.

    Example:
        >>> state = TokenState(0, provenance=torch.tensor([[0, 0, -1, 1]]))
        >>> group_means(torch.tensor([[[1.0], [3.0], [7.0], [5.0]]]), state, 2).flatten().tolist()
        [2.0, 5.0]
    """
    assert state.provenance is not None
    prefix, patches = vanilla[:, : state.num_prefix], vanilla[:, state.num_prefix :]
    place = torch.where(state.provenance < 0, num_patches, state.provenance)  # a spare row takes the evicted
    sums = patches.new_zeros(len(patches), num_patches + 1, patches.shape[2])
    sums.scatter_add_(1, place[..., None].expand_as(patches), patches)
    counts = patches.new_zeros(len(patches), num_patches + 1)
    counts.scatter_add_(1, place, torch.ones_like(place, dtype=patches.dtype))
    return torch.cat([prefix, (sums / counts.clamp_min(1)[..., None])[:, :num_patches]], 1)


def row_weights(tokens: Tensor, num_prefix: int, prefix_only: bool) -> Tensor:
    """(B, N) weights of the rows of (B, N, C) tokens: the prefix counts as much as all patch tokens together.

    With `prefix_only`, patch tokens count nothing: nobody reads them after the last block.
    """
    batch, count, _ = tokens.shape
    weights = tokens.new_full((batch, count), 0.0 if prefix_only else 1.0)
    if num_prefix:
        weights[:, :num_prefix] = max(count - num_prefix, 1) / num_prefix
    return weights


def balanced(weights: Tensor, errors: Tensor) -> Tensor:
    """(n,) weights of the rows of a batch in units of the mean square of its (n, C) errors.

    Every batch counts alike: corrupted images have by far the largest errors, and would outvote the clean ones.

    Example:
        >>> balanced(torch.ones(2), torch.tensor([[2.0], [2.0]])).tolist()
        [0.25, 0.25]
    """
    mean = (errors.square().mean(-1) * weights).sum() / weights.sum()
    return weights / mean.clamp_min(1e-12)
