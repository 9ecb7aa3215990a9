"""What a reduced model's tokens should be: the vanilla model's tokens, averaged over the patches each stands for."""

from __future__ import annotations

import torch
from torch import Tensor

from catis.core.execute import group_sum
from catis.core.norms import norms, with_norms
from catis.core.plan import Plan
from catis.core.state import TokenState


def group_means(
    vanilla: Tensor, state: TokenState, num_patches: int, shares: Tensor | None = None, restore_norm: bool = False
) -> Tensor:
    """(B, P + N_p, C) targets of the tokens present, from (B, P + patches at the start, C) vanilla tokens.

    A prefix token's target is vanilla's own, a patch token's the mean over its patches; what was evicted has no part.

    Args:
        vanilla: Tokens of the vanilla model.
        state: Companions of the tokens present.
        num_patches: Patch tokens present, N_p.
        shares: (B, patches at the start) what each patch is of its token; alike inside a token if there are none.
        restore_norm: Whether a mean gets the mean norm of its patches, as merged tokens did.

    Example:
        >>> state = TokenState(0, provenance=torch.tensor([[0, 0, -1, 1]]))
        >>> group_means(torch.tensor([[[1.0], [3.0], [7.0], [5.0]]]), state, 2).flatten().tolist()
        [2.0, 5.0]
    """
    assert state.provenance is not None
    prefix, patches = vanilla[:, : state.num_prefix], vanilla[:, state.num_prefix :]
    place = torch.where(state.provenance < 0, num_patches, state.provenance)  # a spare row takes the evicted
    weights = torch.ones_like(place, dtype=patches.dtype) if shares is None else shares
    sums = patches.new_zeros(len(patches), num_patches + 1, patches.shape[2])
    sums.scatter_add_(1, place[..., None].expand_as(patches), patches * weights[..., None])
    totals = patches.new_zeros(len(patches), num_patches + 1)
    totals.scatter_add_(1, place, weights)
    smallest = torch.finfo(totals.dtype).tiny
    means = torch.cat([prefix, (sums / totals.clamp_min(smallest)[..., None])[:, :num_patches]], 1)
    return with_norms(means, group_means(norms(vanilla), state, num_patches, shares)) if restore_norm else means


def next_shares(shares: Tensor | None, plan: Plan | None, state: TokenState) -> Tensor | None:
    """(B, patches at the start) what each patch is of its token after a plan, from that before it.

    A group is averaged by some weights: its target must be the mean by the same ones, or calibration would take back
    what the method gained by them.

    Args:
        shares: Before the plan; None while every token is a patch, or the mean of its patches.
        plan: What the block did, if anything.
        state: Companions of the tokens before the plan.

    Example:
        >>> plan = Plan(torch.tensor([[0]]), torch.tensor([[1]]), torch.tensor([[0]]), True, "weight",
        ...             torch.tensor([[3.0, 1.0]]))
        >>> next_shares(None, plan, TokenState.start(0, 2, 1, track=True)).tolist()
        [[0.75, 0.25]]
    """
    if plan is None:
        return shares
    assert state.provenance is not None
    weight = _weight(plan, state)
    part = weight / group_sum(plan, weight).gather(1, plan.slots().clamp_min(0)).clamp_min(
        torch.finfo(weight.dtype).tiny
    )
    own = part.gather(1, state.provenance.clamp_min(0))
    return own if shares is None else shares * own


def _weight(plan: Plan, state: TokenState) -> Tensor:
    """(B, N_p) weights by which the plan averages; those of blends that are no weighted mean are alike."""
    if plan.blend == "weight":
        assert plan.weight is not None
        return plan.weight.float()
    alike = torch.ones(plan.keep.shape[0], plan.num_kept + plan.removed.shape[1], device=plan.keep.device)
    return state.size if plan.blend == "size" and state.size is not None else alike


FITTED_ROWS, HELD_OUT_ROWS = 64, 16
"""Patch tokens of an image that a layer is fitted on at the most, and that choose its penalty: neighbours say much the
same, and X'WX takes long."""


def some_rows(count: int, num_prefix: int, held_out: bool, prefix_only: bool = False) -> list[int]:
    """Tokens, of `count`, that a layer is fitted on, or that choose: the prefix, and evenly spaced patch tokens.

    With `prefix_only` no patch token: nobody reads them after the last block.

    Example:
        >>> some_rows(131, 1, held_out=False)[:4], len(some_rows(131, 1, False)), len(some_rows(131, 1, True))
        ([0, 1, 4, 7], 45, 16)
    """
    step = max(1, -(-(count - num_prefix) // (HELD_OUT_ROWS if held_out else FITTED_ROWS)))
    return [*range(num_prefix), *(() if prefix_only else range(num_prefix, count, step))]


def row_weights(tokens: Tensor, num_prefix: int) -> Tensor:
    """(B, N) weights of the rows of (B, N, C) tokens: the prefix counts as much as all patch tokens together."""
    batch, count, _ = tokens.shape
    weights = tokens.new_ones(batch, count)
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
