"""Protect, merge, evict: what CATIS does with a score, and the strategies of its ablation (SPEC 4, CATIS 4-5).

Sets differ in size from image to image, so they are ranks and masks here, never ragged lists: every tensor's shape
follows from N_p and r. Scores are finite.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from catis.core.execute import take_rows
from catis.core.order import order_by, partition
from catis.core.plan import EVICTED, Plan
from catis.core.view import BlockView

__all__ = ["plan_evict", "plan_global", "plan_merge", "plan_triage"]


def plan_triage(score: Tensor, view: BlockView, tau: float, evictions: int) -> Plan:
    """Evict up to `evictions` of E = {s < -tau}, merge the rest of r inside M = {-tau <= s <= tau}.

    Args:
        score: (B, N_p) standardised importance.
        view: The block.
        tau: Triage radius.
        evictions: floor(evict_ratio * r), the most that eviction takes while M can supply the rest.
    """
    evictable, mergeable = score < -tau, score.abs() <= tau
    wanted = view.r - evictable.sum(-1, keepdim=True).clamp_max(evictions)  # r_m (Eq. allocation)
    return _merge_and_evict(score, view, mergeable, wanted)


def plan_global(score: Tensor, view: BlockView, tau: float, evictions: int) -> Plan:
    """Evict from E as triage does, then ToMe matching over all tokens that are left."""
    evictable = score < -tau
    count = evictable.sum(-1, keepdim=True).clamp_max(evictions)
    left = rank(score) >= count
    return _merge_and_evict(score, view, left, view.r - count)


def plan_evict(score: Tensor, view: BlockView, tau: float, evictions: int) -> Plan:
    """Evict the r lowest (ablation: no protection, no merging)."""
    ranked = order_by(score)
    return Plan(ranked[:, view.r :].sort(-1).values, ranked[:, : view.r])


def plan_merge(score: Tensor, view: BlockView, tau: float, evictions: int) -> Plan:
    """Merge the r lowest into their most similar survivor (ablation: no protection, no eviction)."""
    ranked = order_by(score)
    removed, keep = ranked[:, : view.r], ranked[:, view.r :].sort(-1).values
    unit = view.unit_keys()
    target = (take_rows(unit, removed) @ take_rows(unit, keep).transpose(1, 2)).argmax(-1)
    return Plan(keep, removed, target, all_merge=True)


def rank(score: Tensor) -> Tensor:
    """(B, N) place of each entry in ascending order, ties by index."""
    ranked = order_by(score)
    places = torch.arange(score.shape[1], device=score.device).expand_as(ranked)
    return torch.empty_like(ranked).scatter_(1, ranked, places)


def _merge_and_evict(score: Tensor, view: BlockView, pool: Tensor, wanted: Tensor) -> Plan:
    """Merge the `wanted` (B, 1) best edges inside the pool; evict the lowest until r tokens are gone.

    What the pool cannot supply is evicted: lowest first, a token that others merged into last of all. Destinations
    are at most half of the tokens and r is too, so no destination ever has to go.
    """
    source, destination, merged = _pool_edges(view.unit_keys(), pool, wanted, view.r)
    lowest = _lowest(score, torch.cat([source, destination], 1), merged.repeat(1, 2), view.r)
    turn = torch.arange(view.r, device=score.device) - merged.sum(-1, keepdim=True)
    removed = torch.where(merged, source, lowest.gather(1, turn.clamp_min(0)))
    gone = torch.zeros_like(score, dtype=torch.float32).scatter_(1, removed, 1.0)  # TensorRT sums no booleans
    keep = partition(gone == 0)[:, : score.shape[1] - view.r]  # survivors, in token order
    slot = (1 - gone).cumsum(-1).long() - 1
    return Plan(keep, removed, torch.where(merged, slot.gather(1, destination), EVICTED))


def _pool_edges(unit: Tensor, pool: Tensor, wanted: Tensor, r: int) -> tuple[Tensor, Tensor, Tensor]:
    """The best edges inside a pool that is split alternately in token order.

    Returns:
        (B, r) source tokens, (B, r) their destinations, and (B, r) which of these edges are real and wanted.
    """
    size = pool.sum(-1, keepdim=True)
    pooled = partition(pool)
    side_a, side_b = pooled[:, ::2], pooled[:, 1::2]
    place = torch.arange(pooled.shape[1], device=pooled.device)
    sorted_unit = take_rows(unit, pooled)
    similarity = torch.bmm(sorted_unit[:, ::2], sorted_unit[:, 1::2].transpose(1, 2))
    similarity = similarity.masked_fill_((place[1::2] >= size)[:, None, :], float("-inf"))
    best, partner = similarity.max(-1)
    top = order_by(best.masked_fill(place[::2] >= size, float("-inf")), descending=True)[:, :r]
    available = (size + 1) // 2 * (size > 1)
    merged = place[:r] < torch.minimum(wanted, available)
    return side_a.gather(1, top), side_b.gather(1, partner.gather(1, top)), merged


def _lowest(score: Tensor, tokens: Tensor, taken: Tensor, r: int) -> Tensor:
    """(B, r) tokens of lowest score, passing over those of `tokens` that are `taken`."""
    num_patches = score.shape[1]
    blocked = torch.where(taken, tokens, num_patches)  # one spare column takes the writes that are not meant
    spare = F.pad(score, (0, 1)).scatter_(1, blocked, float("inf"))[:, :num_patches]
    return order_by(spare)[:, :r]
