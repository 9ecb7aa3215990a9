"""Deciding as one compiled call per block: what C needs to know of a view, and room for what it gives back.

Each function returns None where a tensor is not C's: of another type, device or precision, or without memory.
"""

from __future__ import annotations

import torch
from torch import Tensor

from catis.core.plan import Blend, Plan
from catis.core.view import BlockView
from catis.methods.catis import Catis
from catis.methods.mctf import BLENDS, MCTF
from catis.methods.pitome import PiToMe, energy_notes
from catis.methods.tofu import ToFu
from catis.methods.tome import ToMe, similarity_notes
from catis.native.library import Kernels
from catis.native.memory import CPU, in_rows, new_floats

__all__ = ["attention_received", "decide_catis", "decide_mctf", "decide_pitome", "decide_tofu", "decide_tome", "fuse"]


def decide_tome(kernels: Kernels, method: ToMe, view: BlockView) -> Plan | None:
    """As `ToMe.plan`."""
    return _bipartite(kernels, view, "size")


def decide_tofu(kernels: Kernels, method: ToFu, view: BlockView) -> Plan | None:
    """As `ToFu.plan`."""
    return _bipartite(kernels, view, method.blend(view.block, view.depth))


def _bipartite(kernels: Kernels, view: BlockView, blend: Blend | None) -> Plan | None:
    """As `plan_bipartite`."""
    keep, removed, target = _room(view)
    best = _signal(view) if view.explain else None
    if not kernels.module.decide_tome(
        kernels.threads(),
        key=in_rows(view.content_key),
        prefix=view.num_prefix,
        keep=keep,
        removed=removed,
        target=target,
        score=best,
    ):
        return None
    return Plan(keep, removed, target if blend else None, True, blend or "size", notes=similarity_notes(best, view.r))


def decide_pitome(kernels: Kernels, method: PiToMe, view: BlockView) -> Plan | None:
    """As `PiToMe.plan`."""
    keep, removed, target = _room(view)
    scores = _signal(view)
    if not kernels.module.decide_pitome(
        kernels.threads(),
        key=in_rows(view.content_key),
        prefix=view.num_prefix,
        margin=method.margin_at(view.block, view.depth),
        pure=method.variant(view.block, view.depth) == "pure",
        keep=keep,
        removed=removed,
        target=target,
        score=scores,
    ):
        return None
    return Plan(keep, removed, target, True, notes=energy_notes(scores, view.r) if view.explain else {})


def decide_catis(kernels: Kernels, method: Catis, view: BlockView) -> Plan | None:
    """As `Catis.plan`, for triage by the signals that are not ablations of s_nf."""
    if method.strategy != "triage" or method.signal not in ("fused", "cls", "nf"):
        return None
    observed = method.observes(view)
    in_context = observed and view.block >= method.l_start
    by_norm = method.signal != "cls" or not in_context
    keep, removed, target = _room(view)
    attention = _signal(view) if observed else None
    norm = _signal(view) if view.explain and by_norm else None
    context = _signal(view) if view.explain and in_context else None
    score = _signal(view) if view.explain else None
    if not kernels.module.decide_catis(
        kernels.threads(),
        features=view.features.contiguous(),
        query=in_rows(view.query),
        key=in_rows(view.key),
        content_key=in_rows(view.content_key),
        bias=None if view.bias is None else view.bias.contiguous(),
        previous=view.previous_cls.contiguous() if in_context and view.previous_cls is not None else None,
        prefix=view.num_prefix,
        evictions=method.evictions(view.r),
        uses_norm=by_norm,
        uses_cls=in_context,
        scale=view.scale,
        gamma=method.gamma,
        w_cls=method.w_cls,
        tau=method.tau,
        keep=keep,
        removed=removed,
        target=target,
        attention=attention,
        norm=norm,
        context=context,
        score=score,
    ):
        return None
    notes = {} if score is None else method.notes(norm, context, score)
    return Plan(keep, removed, target, cls_attention=attention, notes=notes)


def decide_mctf(kernels: Kernels, method: MCTF, view: BlockView) -> Plan | None:
    """As `MCTF.plan`, in two calls: what each token receives, then the matching."""
    received = attention_received(kernels, view)
    if received is None:
        return None
    plan = fuse(kernels, method, view.residual, received, view.size, view.num_prefix, view.r)
    if plan is None or not view.explain:
        return plan
    return Plan(*_fields(plan), notes=method.notes(view, received))


def _fields(plan: Plan) -> tuple[Tensor, Tensor, Tensor | None, bool, Blend, Tensor | None]:
    return plan.keep, plan.removed, plan.target, plan.all_merge, plan.blend, plan.weight


def attention_received(kernels: Kernels, view: BlockView) -> Tensor | None:
    """As `BlockView.attention_received`, without ever writing the attention map."""
    received = _signal(view)
    done = kernels.module.attention_received(
        kernels.threads(),
        query=in_rows(view.query),
        key=in_rows(view.key),
        bias=None if view.bias is None else view.bias.contiguous(),
        scale=view.scale,
        prefix=view.num_prefix,
        received=received,
    )
    return received if done else None


def fuse(
    kernels: Kernels, method: MCTF, residual: Tensor, received: Tensor, size: Tensor | None, num_prefix: int, r: int
) -> Plan | None:
    """As `MCTF.fuse`, on all (B, N, C) tokens, prefix first; with the temperatures of similarity that C knows."""
    if method.tau_sim not in (0.0, 1.0):
        return None
    batch, patches = residual.shape[0], residual.shape[1] - num_prefix
    keep, removed, target = _indices(batch, patches, r)
    weight = new_floats((batch, patches))
    if not kernels.module.decide_mctf(
        kernels.threads(),
        residual=residual.contiguous(),
        received=received.contiguous(),
        size=None if size is None else size.contiguous(),
        prefix=num_prefix,
        first=method.directions(r)[0],
        similar=method.tau_sim != 0,
        info=-1 / method.tau_info if method.tau_info else 0.0,
        small=-1 / method.tau_size if method.tau_size else 0.0,
        keep=keep,
        removed=removed,
        target=target,
        weight=weight,
    ):
        return None
    return Plan(keep, removed, target, True, BLENDS[method.pooling], weight)


def _room(view: BlockView) -> tuple[Tensor, Tensor, Tensor]:
    return _indices(view.features.shape[0], view.num_patches, view.r)


def _indices(batch: int, patches: int, r: int) -> tuple[Tensor, Tensor, Tensor]:
    """Room for keep (B, N_p - r), removed (B, r) and target (B, r); of more than half, C says what is wrong."""
    return (
        torch.empty((batch, patches - r), dtype=torch.int64, device=CPU),
        torch.empty((batch, r), dtype=torch.int64, device=CPU),
        torch.empty((batch, r), dtype=torch.int64, device=CPU),
    )


def _signal(view: BlockView) -> Tensor:
    """Room for (B, N_p) numbers."""
    return new_floats((view.features.shape[0], view.num_patches))
