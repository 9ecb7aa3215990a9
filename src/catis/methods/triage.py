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

_NEVER = -1e4  # added to a cosine of a token outside the pool: below any inside, and finite in half precision
_FIRST = -1e6  # below any score, which is at most sqrt(N_p)


def plan_triage(score: Tensor, view: BlockView, tau: float, evictions: int) -> Plan:
    """Evict up to `evictions` of E = {s < -tau}, merge the rest of r inside M = {-tau <= s <= tau}."""
    few = _below(score, tau)  # Eq. allocation: r_m = r - r_e
    return _merge_and_evict(score, view, score.abs() <= tau, few < _merge_limits(view, evictions))


def plan_global(score: Tensor, view: BlockView, tau: float, evictions: int) -> Plan:
    """Evict from E as triage does, then ToMe matching over all tokens that are left."""
    few, rank = _below(score, tau), order_by(order_by(score))
    return _merge_and_evict(score, view, rank >= few.clamp_max(evictions), few < _merge_limits(view, evictions))


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


def _below(score: Tensor, tau: float) -> Tensor:
    """(B, 1) |E|; a float, since TensorRT neither adds up booleans nor clips integers."""
    return (score < -tau).to(torch.float32).sum(-1, keepdim=True)


def _merge_limits(view: BlockView, evictions: int) -> Tensor:
    """(r,) the i-th best edge is merged while |E| is below this: i < r - min(|E|, evictions), solved for |E|."""
    left = torch.arange(view.r, 0, -1, dtype=torch.float32, device=view.features.device)
    return torch.where(left > evictions, math.inf, left)


def _merge_and_evict(score: Tensor, view: BlockView, pool: Tensor, wanted: Tensor) -> Plan:
    """Merge the best edges of the pool, as far as they are `wanted` (B, r), then evict the lowest until r are gone.

    What the pool cannot supply is evicted: lowest first, a token that others merged into last of all. Destinations
    are at most half of the tokens and r is too, so no destination ever has to go.
    """
    source, destination, merged = _pool_edges(view, pool, wanted)
    into = torch.where(merged, destination, EVICTED)
    order = order_by(_turns(score, source, into, merged))
    removed, keep = order[:, : view.r], ascending(order[:, view.r :])
    slot = (keep[:, None, :] < destination[:, :, None]).sum(-1)
    return Plan(keep, removed, torch.where(merged, slot, EVICTED), into=into)


def _pool_edges(view: BlockView, pool: Tensor, wanted: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The best edges inside a pool that is split alternately in token order.

    Every token is compared with every other one and those that are not a source or not a destination are masked:
    pools differ from image to image, and to collect them would take a sort and a copy.

    Returns:
        (B, r) source tokens, (B, r) their destinations, and (B, r) which of these edges are real and wanted: a first
        part of them, since they are sorted.
    """
    unit, member = view.unit_keys(), pool.to(torch.float32)
    second = member > torch.fmod(member.cumsum(-1), 2)  # the second, fourth, sixth ... of the pool: a destination
    elsewhere = torch.where(second, 0.0, _NEVER)[:, None].to(unit.dtype)
    similarity = torch.baddbmm(elsewhere, unit, unit.transpose(1, 2))
    best = similarity.amax(-1)
    ranked = top(torch.where((best > _NEVER / 2) & (pool ^ second), best, _NEVER), view.r)  # NaN is no edge either
    merged = wanted & (ranked.values > _NEVER / 2)
    return ranked.indices, best_partners(similarity, ranked.indices), merged


def _turns(score: Tensor, source: Tensor, into: Tensor, merged: Tensor) -> Tensor:
    """(B, N_p) keys in whose ascending order tokens go: merged sources, the others by score, destinations never.

    The source of an edge that is not merged may be anybody, a destination of others too: its key stays as it is.
    """
    token = torch.arange(score.shape[1], device=score.device)[:, None]
    score = torch.where(token == into[:, None], math.inf, score[:, :, None]).amax(-1)
    place = torch.arange(source.shape[1], dtype=score.dtype, device=score.device)
    return score.scatter(1, source, torch.where(merged, place + _FIRST, score.gather(1, source)))
