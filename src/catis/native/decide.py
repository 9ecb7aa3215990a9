"""Deciding as one compiled call per block: what C needs to know of a view, and memory for what it gives back.

Each function returns None where a tensor is not C's (of another type, device, precision or form, or without memory),
and where an option has a value that C has no code for.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import torch
from torch import Tensor

from catis.core.plan import Blend, Plan
from catis.core.view import BlockView
from catis.methods.catis import Catis
from catis.methods.mctf import BLENDS, MCTF
from catis.methods.pitome import PiToMe, energy_notes
from catis.methods.tofu import ToFu
from catis.methods.tome import ToMe, similarity_notes
from catis.native.library import CPU, Kernels, new_floats


class _Chosen(NamedTuple):
    """Memory for (B, N_p - r), (B, r) and (B, r) indices of a plan; of more than half, C says what is wrong."""

    keep: Tensor
    removed: Tensor
    target: Tensor


def decide_tome(kernels: Kernels, method: ToMe, view: BlockView) -> Plan | None:
    """As `ToMe.plan`, with groups weighed by size."""
    if method.pooling != "size":
        return None
    return _bipartite(kernels, view, "size")


def decide_tofu(kernels: Kernels, method: ToFu, view: BlockView) -> Plan | None:
    """As `ToFu.plan`."""
    return _bipartite(kernels, view, method.blend(view.block, view.depth))


def _bipartite(kernels: Kernels, view: BlockView, blend: Blend | None) -> Plan | None:
    """As `plan_bipartite`."""
    chosen, best = _choices(view), _signal(view, view.explain)
    if not kernels.module.decide_tome(
        kernels.threads(),
        prefix=view.num_prefix,
        content_key=_in_rows(view.content_key),
        score=best,
        **chosen._asdict(),
    ):
        return None
    notes = similarity_notes(best, view.r)
    return Plan(*chosen[:2], chosen.target if blend else None, True, blend or "size", notes=notes)


def decide_pitome(kernels: Kernels, method: PiToMe, view: BlockView) -> Plan | None:
    """As `PiToMe.plan`."""
    chosen, energies = _choices(view), _signal(view, view.explain)
    if not kernels.module.decide_pitome(
        kernels.threads(),
        prefix=view.num_prefix,
        content_key=_in_rows(view.content_key),
        margin=method.margin_at(view.block, view.depth),
        pure=method.variant(view.block, view.depth) == "pure",
        score=energies,
        **chosen._asdict(),
    ):
        return None
    return Plan(*chosen, all_merge=True, notes={} if energies is None else energy_notes(energies, view.r))


def decide_catis(kernels: Kernels, method: Catis, view: BlockView) -> Plan | None:
    """As `Catis.plan`, for triage by the signals that are not ablations of s_nf."""
    if method.pooling != "size" or method.strategy != "triage" or method.signal not in ("fused", "cls", "nf"):
        return None
    observed = method.observes(view)
    in_context = observed and view.block >= method.l_start
    by_norm = method.signal != "cls" or not in_context
    chosen, attention, score = _choices(view), _signal(view, observed), _signal(view, view.explain)
    norm, context = _signal(view, view.explain and by_norm), _signal(view, view.explain and in_context)
    if not kernels.module.decide_catis(
        kernels.threads(),
        prefix=view.num_prefix,
        query=_in_rows(view.query),
        key=_in_rows(view.key),
        content_key=_in_rows(view.content_key),
        features=view.features.contiguous(),
        bias=_contiguous(view.bias),
        scale=view.scale,
        previous=_contiguous(view.previous_cls) if in_context else None,
        evictions=method.evictions(view.r),
        uses_norm=by_norm,
        uses_cls=in_context,
        gamma=method.gamma,
        w_cls=method.w_cls,
        tau=method.tau,
        norm=norm,
        context=context,
        score=score,
        attention=attention,
        **chosen._asdict(),
    ):
        return None
    return Plan(*chosen, cls_attention=attention, notes={} if score is None else method.notes(norm, context, score))


def decide_mctf(kernels: Kernels, method: MCTF, view: BlockView) -> Plan | None:
    """As `MCTF.plan`, in two calls: what each token receives, then the matching."""
    received = attention_received(kernels, view)
    if received is None:
        return None
    plan = fuse(kernels, method, view.residual, received, view.size, view.num_prefix, view.r)
    return plan if plan is None or not view.explain else replace(plan, notes=method.notes(view, received))


def attention_received(kernels: Kernels, view: BlockView) -> Tensor | None:
    """As `BlockView.attention_received`, without ever writing the attention map."""
    received = _signal(view, True)
    done = kernels.module.attention_received(
        kernels.threads(),
        prefix=view.num_prefix,
        query=_in_rows(view.query),
        key=_in_rows(view.key),
        bias=_contiguous(view.bias),
        scale=view.scale,
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
    chosen, weight = _indices(batch, patches, r), new_floats((batch, patches))
    if not kernels.module.decide_mctf(
        kernels.threads(),
        prefix=num_prefix,
        residual=residual.contiguous(),
        received=received.contiguous(),
        size=_contiguous(size),
        first=method.directions(r)[0],
        similar=method.tau_sim != 0,
        info=-1 / method.tau_info if method.tau_info else 0.0,
        small=-1 / method.tau_size if method.tau_size else 0.0,
        weight=weight,
        **chosen._asdict(),
    ):
        return None
    return Plan(*chosen, all_merge=True, blend=BLENDS[method.pooling], weight=weight)


def _choices(view: BlockView) -> _Chosen:
    return _indices(view.features.shape[0], view.num_patches, view.r)


def _indices(batch: int, patches: int, r: int) -> _Chosen:
    return _Chosen(_new_indices((batch, patches - r)), _new_indices((batch, r)), _new_indices((batch, r)))


def _new_indices(shape: tuple[int, int]) -> Tensor:
    return torch.empty(shape, dtype=torch.int64, device=CPU)


def _signal(view: BlockView, wanted: bool) -> Tensor | None:
    """Memory for (B, N_p) numbers, where somebody wants them."""
    return new_floats((view.features.shape[0], view.num_patches)) if wanted else None


def _contiguous(values: Tensor | None) -> Tensor | None:
    return None if values is None else values.contiguous()


def _in_rows(heads: Tensor) -> Tensor:
    """(B, H, N, d) with each token's numbers one after the other, as every model that we know has them."""
    return heads if heads.stride()[3] == 1 else heads.contiguous()
