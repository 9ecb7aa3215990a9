"""Protect, merge, evict: what CATIS does with a score, and the strategies of its ablation (docs/methods.md, CATIS).

Sets differ in size from image to image, so they are ranks and masks here, never ragged lists: every tensor's shape
follows from N_p and r. Scores are finite.
"""

from __future__ import annotations

import torch
from torch import Tensor

from catis.core.order import order_by, partition
from catis.core.plan import EVICTED, Plan
from catis.core.portable import at_least, at_most, count, mark, running_count
from catis.core.rows import take_rows
from catis.core.view import BlockView, unit_length

__all__ = ["plan_evict", "plan_global", "plan_merge", "plan_triage"]

_NEVER = -1e4  # added to a cosine of a token outside the pool: below any inside, and finite in half precision


def plan_triage(score: Tensor, view: BlockView, tau: float, evictions: int) -> Plan:
    """Evict up to `evictions` of E = {s < -tau}, merge the rest of r inside M = {-tau <= s <= tau}.

    Args:
        score: (B, N_p) standardised importance.
        view: The block.
        tau: Triage radius.
        evictions: floor(evict_ratio * r), the most that eviction takes while M can supply the rest.
    """
    r_e = at_most(count(score < -tau), evictions)
    return _merge_and_evict(score, view, pool=score.abs() <= tau, r_m=view.r - r_e)  # Eq. allocation


def plan_global(score: Tensor, view: BlockView, tau: float, evictions: int) -> Plan:
    """Evict from E as triage does, then ToMe matching over all tokens that are left."""
    r_e = at_most(count(score < -tau), evictions)
    rank = order_by(order_by(score))
    return _merge_and_evict(score, view, pool=rank >= r_e, r_m=view.r - r_e)


def plan_evict(score: Tensor, view: BlockView, tau: float, evictions: int) -> Plan:
    """Evict the r lowest (ablation: no protection, no merging)."""
    ranked = order_by(score)
    return Plan(ranked[:, view.r :].sort(-1).values, ranked[:, : view.r])


def plan_merge(score: Tensor, view: BlockView, tau: float, evictions: int) -> Plan:
    """Merge the r lowest into their most similar survivor (ablation: no protection, no eviction)."""
    ranked = order_by(score)
    removed, keep = ranked[:, : view.r], ranked[:, view.r :].sort(-1).values
    unit = view.unit_keys()
    target = torch.bmm(take_rows(unit, removed), take_rows(unit, keep).transpose(1, 2)).argmax(-1)
    return Plan(keep, removed, target, all_merge=True)


def _merge_and_evict(score: Tensor, view: BlockView, pool: Tensor, r_m: Tensor) -> Plan:
    """Merge the `r_m` (B, 1) best edges of the pool, then evict the lowest until r tokens are gone.

    What the pool cannot supply is evicted: lowest first, a token that others merged into last of all. Destinations
    are at most half of the tokens and r is too, so no destination ever has to go.
    """
    r, num_patches = view.r, score.shape[1]
    source, destination, merged = _pool_edges(view, pool, r_m)
    lowest = _lowest(score, torch.cat([source, destination], -1), torch.cat([merged, merged], -1))
    turn = at_least(torch.arange(r, device=score.device) - count(merged), 0)
    removed = torch.where(merged, source, lowest[:, :r].gather(1, turn))
    kept = ~mark(num_patches, removed)
    keep = partition(kept)[:, : num_patches - r]  # in token order
    slot = running_count(kept) - 1
    return Plan(keep, removed, torch.where(merged, slot.gather(1, destination), EVICTED))


def _pool_edges(view: BlockView, pool: Tensor, r_m: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The best edges inside a pool that is split alternately in token order.

    Returns:
        (B, r) source tokens, (B, r) their destinations, and (B, r) which of these edges are real and wanted.
    """
    size, num_patches = count(pool), view.num_patches
    pooled = partition(pool)  # the pool first, in token order; all images alike, whatever their pools
    place = torch.arange(num_patches, device=pool.device)
    unit = unit_length(take_rows(view.summed_keys(), pooled))
    penalty = (place >= size).to(unit.dtype) * _NEVER
    similarity = torch.baddbmm(penalty[:, None, 1::2], unit[:, ::2], unit[:, 1::2].transpose(1, 2))
    top = order_by(similarity.amax(-1) + penalty[:, ::2], descending=True)[:, : view.r]
    destination = pooled[:, 1::2].gather(1, similarity.argmax(-1).gather(1, top))
    available = count(place[::2] < size) * (size > 1)  # size / 2, rounded up; a pool of one has nobody to merge with
    merged = place[: view.r] < torch.minimum(r_m, available)
    return pooled[:, ::2].gather(1, top), destination, merged


def _lowest(score: Tensor, tokens: Tensor, taken: Tensor) -> Tensor:
    """(B, N_p) tokens by ascending score, those of `tokens` that are `taken` at the end."""
    num_patches = score.shape[1]
    blocked = torch.where(taken, tokens, num_patches)  # one spare column takes the writes that are not meant
    last = torch.cat([score, score[:, :1]], -1).scatter(1, blocked, float("inf"))
    return order_by(last[:, :num_patches])
