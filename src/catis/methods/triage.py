"""Protect, merge, evict: what CATIS does with a score, and the strategies of its ablation (SPEC 4, CATIS 4-5).

Sets differ in size from image to image, so they are ranks and masks here, never ragged lists: every tensor's shape
follows from N_p and r. Scores are finite.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from catis.core.arrays import arrays_for
from catis.core.plan import EVICTED, Plan
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
    xp = arrays_for(score)
    s = xp.read(score)
    wanted = view.r - xp.at_most(xp.count(s < -tau), evictions)  # r_m (Eq. allocation)
    return _merge_and_evict(xp, s, view, abs(s) <= tau, wanted)


def plan_global(score: Tensor, view: BlockView, tau: float, evictions: int) -> Plan:
    """Evict from E as triage does, then ToMe matching over all tokens that are left."""
    xp = arrays_for(score)
    s = xp.read(score)
    count = xp.at_most(xp.count(s < -tau), evictions)
    ranked = xp.order(s)
    place = xp.repeat_rows(xp.arange(0, s.shape[1], 1, ranked), ranked)
    left = xp.put(ranked, ranked, place) >= count
    return _merge_and_evict(xp, s, view, left, view.r - count)


def plan_evict(score: Tensor, view: BlockView, tau: float, evictions: int) -> Plan:
    """Evict the r lowest (ablation: no protection, no merging)."""
    xp = arrays_for(score)
    ranked = xp.order(xp.read(score))
    return Plan(xp.write(xp.sort(ranked[:, view.r :])), xp.write(ranked[:, : view.r]))


def plan_merge(score: Tensor, view: BlockView, tau: float, evictions: int) -> Plan:
    """Merge the r lowest into their most similar survivor (ablation: no protection, no eviction)."""
    xp = arrays_for(score)
    ranked = xp.order(xp.read(score))
    removed, keep = xp.write(ranked[:, : view.r]), xp.write(xp.sort(ranked[:, view.r :]))
    unit = view.unit_keys()
    target = (take_rows(unit, removed) @ take_rows(unit, keep).transpose(1, 2)).argmax(-1)
    return Plan(keep, removed, target, all_merge=True)


def _merge_and_evict(xp: Any, score: Any, view: BlockView, pool: Any, wanted: Any) -> Plan:
    """Merge the `wanted` (B, 1) best edges inside the pool; evict the lowest until r tokens are gone.

    What the pool cannot supply is evicted: lowest first, a token that others merged into last of all. Destinations
    are at most half of the tokens and r is too, so no destination ever has to go.
    """
    r, num_patches = view.r, score.shape[1]
    source, destination, merged = _pool_edges(xp, view, pool, wanted)
    lowest = _lowest(xp, score, xp.join(source, destination), xp.join(merged, merged))[:, :r]
    turn = xp.at_least(xp.arange(0, r, 1, score) - xp.count(merged), 0)
    removed = xp.where(merged, source, xp.take(lowest, turn))
    gone = xp.put(score != score, removed, True)  # scores are finite: starts all false
    keep = xp.order(gone)[:, : num_patches - r]  # survivors, in token order
    slot = xp.running_count(~gone) - 1
    target = xp.where(merged, xp.take(slot, destination), EVICTED)
    return Plan(xp.write(keep), xp.write(removed), xp.write(target))


def _pool_edges(xp: Any, view: BlockView, pool: Any, wanted: Any) -> tuple[Any, Any, Any]:
    """The best edges inside a pool that is split alternately in token order.

    Returns:
        (B, r) source tokens, (B, r) their destinations, and (B, r) which of these edges are real and wanted.
    """
    r, size = view.r, xp.count(pool)
    limit = max(xp.largest(size, view.num_patches), 2 * r)
    pooled = xp.order(~pool)[:, :limit]  # the pool first, in token order
    place = xp.arange(0, limit, 1, pooled)
    unit = unit_length(take_rows(view.summed_keys(), xp.write(pooled)))
    outside = xp.write(xp.where(place >= size, _NEVER, 0.0)).to(unit.dtype)
    similarity = torch.baddbmm(outside[:, None, 1::2], unit[:, ::2], unit[:, 1::2].transpose(1, 2))
    best = xp.read(similarity.amax(-1) + outside[:, ::2])
    top = xp.order(best, descending=True)[:, :r]
    available = xp.count(place[::2] < size) * (size > 1)  # size / 2, rounded up
    merged = place[:r] < xp.minimum(wanted, available)
    return xp.take(pooled[:, ::2], top), xp.take(pooled[:, 1::2], xp.partners(similarity, top)), merged


def _lowest(xp: Any, score: Any, tokens: Any, taken: Any) -> Any:
    """(B, N_p) tokens by ascending score, those of `tokens` that are `taken` at the end."""
    num_patches = score.shape[1]
    blocked = xp.where(taken, tokens, num_patches)  # one spare column takes the writes that are not meant
    return xp.order(xp.put(xp.join(score, score[:, :1]), blocked, float("inf"))[:, :num_patches])
