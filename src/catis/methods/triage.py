"""Protect, merge, evict: what CATIS does with a score, and the strategies of its ablation (SPEC 4, CATIS 4-5).

Sets differ in size from image to image, so they are ranks and masks here, never ragged lists: every tensor's shape
follows from N_p and r. Scores are finite.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from catis.core.plan import EVICTED
from catis.core.rows import take_rows
from catis.core.view import BlockView, unit_length

__all__ = ["plan_evict", "plan_global", "plan_merge", "plan_triage"]

_NEVER = -1e4  # added to a cosine of a token outside the pool: below any inside, and finite in half precision


class Decision(NamedTuple):
    """What a strategy decides; the fields of a Plan of the same names."""

    keep: Tensor
    removed: Tensor
    target: Tensor | None = None
    all_merge: bool = False


def plan_triage(xp: Any, score: Any, view: BlockView, tau: float, evictions: int) -> Decision:
    """Evict up to `evictions` of E = {s < -tau}, merge the rest of r inside M = {-tau <= s <= tau}.

    Args:
        xp: Array library, from `arrays_for`.
        score: (B, N_p) standardised importance, as an array.
        view: The block.
        tau: Triage radius.
        evictions: floor(evict_ratio * r), the most that eviction takes while M can supply the rest.
    """
    wanted = view.r - xp.at_most(xp.count(score < -tau), evictions)  # r_m (Eq. allocation)
    return _merge_and_evict(xp, score, view, abs(score) > tau, wanted)


def plan_global(xp: Any, score: Any, view: BlockView, tau: float, evictions: int) -> Decision:
    """Evict from E as triage does, then ToMe matching over all tokens that are left."""
    count = xp.at_most(xp.count(score < -tau), evictions)
    ranked = xp.order(score)
    place = xp.repeat_rows(xp.arange(0, score.shape[1], 1, ranked), ranked)
    return _merge_and_evict(xp, score, view, xp.put(ranked, ranked, place) < count, view.r - count)


def plan_evict(xp: Any, score: Any, view: BlockView, tau: float, evictions: int) -> Decision:
    """Evict the r lowest (ablation: no protection, no merging)."""
    ranked = xp.order(score)
    return Decision(xp.write(xp.sort(ranked[:, view.r :])), xp.write(ranked[:, : view.r]))


def plan_merge(xp: Any, score: Any, view: BlockView, tau: float, evictions: int) -> Decision:
    """Merge the r lowest into their most similar survivor (ablation: no protection, no eviction)."""
    ranked = xp.order(score)
    removed, keep = xp.write(ranked[:, : view.r]), xp.write(xp.sort(ranked[:, view.r :]))
    unit = view.unit_keys()
    target = (take_rows(unit, removed) @ take_rows(unit, keep).transpose(1, 2)).argmax(-1)
    return Decision(keep, removed, target, True)


def _merge_and_evict(xp: Any, score: Any, view: BlockView, outside: Any, wanted: Any) -> Decision:
    """Merge the `wanted` (B, 1) best edges of the pool, all but `outside`; evict the lowest until r tokens are gone.

    What the pool cannot supply is evicted: lowest first, a token that others merged into last of all. Destinations
    are at most half of the tokens and r is too, so no destination ever has to go.
    """
    r, num_patches = view.r, score.shape[1]
    source, destination, merged = _pool_edges(xp, view, outside, wanted)
    lowest = _lowest(xp, score, xp.join(source, destination), xp.join(merged, merged))[:, :r]
    turn = xp.at_least(xp.arange(0, r, 1, score) - xp.count(merged), 0)
    removed = xp.where(merged, source, xp.take(lowest, turn))
    gone = xp.put(score != score, removed, True)  # scores are finite: starts all false
    keep = xp.order(gone)[:, : num_patches - r]  # survivors, in token order
    slot = xp.running_count(~gone) - 1
    target = xp.where(merged, xp.take(slot, destination), EVICTED)
    return Decision(xp.write(keep), xp.write(removed), xp.write(target))


def _pool_edges(xp: Any, view: BlockView, outside: Any, wanted: Any) -> tuple[Any, Any, Any]:
    """The best edges inside a pool that is split alternately in token order.

    Returns:
        (B, r) source tokens, (B, r) their destinations, and (B, r) which of these edges are real and wanted.
    """
    r, num_patches = view.r, view.num_patches
    size = num_patches - xp.count(outside)
    pooled = xp.order(outside)  # the pool first, in token order; all images alike, whatever their pools
    place = xp.arange(0, num_patches, 1, pooled)
    unit = unit_length(take_rows(view.summed_keys(), xp.write(pooled)), overwrite=True)
    penalty = xp.cast(place >= size, unit.dtype) * _NEVER
    side_a, side_b = unit[:, ::2], unit[:, 1::2].transpose(1, 2)
    similarity = torch.baddbmm(xp.write(penalty[:, None, 1::2]).to(unit.dtype), side_a, side_b)
    best = xp.read(similarity.amax(-1)) + penalty[:, ::2]
    top = xp.order(best, descending=True)[:, :r]
    available = xp.count(place[::2] < size) * (size > 1)  # size / 2, rounded up; a pool of one has nobody to merge with
    merged = place[:r] < xp.minimum(wanted, available)
    return xp.take(pooled[:, ::2], top), xp.take(pooled[:, 1::2], xp.partners(similarity, top)), merged


def _lowest(xp: Any, score: Any, tokens: Any, taken: Any) -> Any:
    """(B, N_p) tokens by ascending score, those of `tokens` that are `taken` at the end."""
    num_patches = score.shape[1]
    blocked = xp.where(taken, tokens, num_patches)  # one spare column takes the writes that are not meant
    return xp.order(xp.put(xp.join(score, score[:, :1]), blocked, float("inf"))[:, :num_patches])
