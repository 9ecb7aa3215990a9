"""Protect, merge, evict: what CATIS does with a score, and the strategies of its ablation (docs/methods.md, CATIS).

Sets differ in size from image to image, so they are ranks and masks here, never ragged lists: every tensor's shape
follows from N_p and r. Scores are finite.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from catis.core.matching import best_partners
from catis.core.order import ascending, order_by, top
from catis.core.plan import EVICTED, Plan
from catis.core.rows import take_rows
from catis.core.view import BlockView

__all__ = ["plan_evict", "plan_global", "plan_merge", "plan_triage"]

_NEVER = -1e4  # added to a cosine of a token outside the pool: below any inside, and finite in half precision
_FIRST = -1e6  # below any score, which is at most sqrt(N_p)


def plan_triage(score: Tensor, view: BlockView, tau: float, evictions: int) -> Plan:
    """Evict up to `evictions` of E = {s < -tau}, merge the rest of r inside M = {-tau <= s <= tau}.

    Args:
        score: (B, N_p) standardised importance.
        view: The block.
        tau: Triage radius.
        evictions: floor(evict_ratio * r), the most that eviction takes while M can supply the rest.
    """
    r_e = _evictions(score, tau, evictions)
    return _merge_and_evict(score, view, pool=score.abs() <= tau, r_m=view.r - r_e)  # Eq. allocation


def plan_global(score: Tensor, view: BlockView, tau: float, evictions: int) -> Plan:
    """Evict from E as triage does, then ToMe matching over all tokens that are left."""
    r_e = _evictions(score, tau, evictions)
    rank = order_by(order_by(score))
    return _merge_and_evict(score, view, pool=rank >= r_e, r_m=view.r - r_e)


def plan_evict(score: Tensor, view: BlockView, tau: float, evictions: int) -> Plan:
    """Evict the r lowest (ablation: no protection, no merging)."""
    ranked = order_by(score)
    return Plan(ascending(ranked[:, view.r :]), ranked[:, : view.r])


def plan_merge(score: Tensor, view: BlockView, tau: float, evictions: int) -> Plan:
    """Merge the r lowest into their most similar survivor (ablation: no protection, no eviction)."""
    ranked = order_by(score)
    removed, keep = ranked[:, : view.r], ascending(ranked[:, view.r :])
    unit = view.unit_keys()
    target = torch.bmm(take_rows(unit, removed), take_rows(unit, keep).transpose(1, 2)).argmax(-1)
    return Plan(keep, removed, target, all_merge=True)


def _evictions(score: Tensor, tau: float, most: int) -> Tensor:
    """(B, 1) r_e = min(|E|, most); a float, since TensorRT neither adds up booleans nor clips integers."""
    return (score < -tau).to(torch.float32).sum(-1, keepdim=True).clamp_max(most)


def _merge_and_evict(score: Tensor, view: BlockView, pool: Tensor, r_m: Tensor) -> Plan:
    """Merge the `r_m` (B, 1) best edges of the pool, then evict the lowest until r tokens are gone.

    What the pool cannot supply is evicted: lowest first, a token that others merged into last of all. Destinations
    are at most half of the tokens and r is too, so no destination ever has to go.
    """
    source, destination, merged = _pool_edges(view, pool, r_m)
    order = order_by(_turns(score, source, destination, merged))
    removed, keep = order[:, : view.r], ascending(order[:, view.r :])
    slot = (keep[:, None, :] < destination[:, :, None]).sum(-1)
    return Plan(keep, removed, torch.where(merged, slot, EVICTED))


def _pool_edges(view: BlockView, pool: Tensor, r_m: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The best edges inside a pool that is split alternately in token order.

    Every token is compared with every other one and those that are not a source or not a destination are masked:
    pools differ from image to image, and to collect them would take a sort and a copy.

    Returns:
        (B, r) source tokens, (B, r) their destinations, and (B, r) which of these edges are real and wanted: a first
        part of them, since they are sorted.
    """
    unit, member = view.unit_keys(), pool.to(torch.float32)
    first = member * torch.fmod(member.cumsum(-1), 2)  # 1 for the first, third, fifth ... of the pool: a source
    elsewhere = torch.where(member > first, 0.0, _NEVER)[:, None].to(unit.dtype)
    similarity = torch.baddbmm(elsewhere, unit, unit.transpose(1, 2))
    best = similarity.amax(-1)
    ranked = top(torch.where((best > _NEVER / 2) & (first > 0), best, _NEVER), view.r)  # NaN is no edge either
    merged = (torch.arange(view.r, device=pool.device) < r_m) & (ranked.values > _NEVER / 2)
    return ranked.indices, best_partners(similarity, ranked.indices), merged


def _turns(score: Tensor, source: Tensor, destination: Tensor, merged: Tensor) -> Tensor:
    """(B, N_p) keys in whose ascending order tokens go: merged sources, the others by score, destinations never.

    The source of an edge that is not merged may be anybody, a destination of others too: its key stays as it is.
    """
    token = torch.arange(score.shape[1], device=score.device)[:, None]
    into = (token == torch.where(merged, destination, EVICTED)[:, None]).to(torch.float32).amax(-1) > 0
    score = torch.where(into, math.inf, score)
    place = torch.arange(source.shape[1], dtype=score.dtype, device=score.device)
    return score.scatter(1, source, torch.where(merged, place + _FIRST, score.gather(1, source)))
