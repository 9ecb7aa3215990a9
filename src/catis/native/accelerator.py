"""The compiled functions behind the core's `Accelerator`: which calls are theirs, and which method has which."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields
from functools import cache
from typing import Any

import torch
from torch import Tensor
from torch.autograd import forward_ad

from catis.core.accelerator import Moved, is_eager
from catis.core.method import Method
from catis.core.plan import Plan
from catis.core.state import TokenState
from catis.core.view import BlockView
from catis.methods.catis import Catis
from catis.methods.mctf import MCTF
from catis.methods.pitome import PiToMe
from catis.methods.tofu import ToFu
from catis.methods.tome import ToMe
from catis.native import decide
from catis.native.library import Kernels, load, new_floats
from catis.reference.ratio import PiToMeReference, ToFuReference, ToMeReference

BLENDS = {"size": 0, "mean": 1, "weight": 2, "mlerp": 3}
"""Blends that the compiled `merge` knows; the numbers are those of kernels.h."""
Decider = Callable[[Kernels, Any, BlockView], Plan | None]
_RATIO = {"reference", "ratio"}  # they decide amounts only
_TAUS = {"tau_sim", "tau_info", "tau_size"}
_THETA = {"gamma", "w_cls", "tau", "evict_ratio", "l_start"}
_TAUGHT: dict[type[Method], tuple[Decider, set[str]]] = {
    ToMe: (decide.decide_tome, {"pooling"}),
    ToMeReference: (decide.decide_tome, {*_RATIO, "pooling"}),
    ToFu: (decide.decide_tofu, set()),
    ToFuReference: (decide.decide_tofu, {*_RATIO, "late"}),
    PiToMe: (decide.decide_pitome, {"margin", "order"}),
    PiToMeReference: (decide.decide_pitome, {*_RATIO, "margin", "order"}),
    MCTF: (decide.decide_mctf, {*_TAUS, "bidirectional", "pooling"}),
    Catis: (decide.decide_catis, {*_THETA, "signal", "strategy", "pooling"}),
}
"""By the very class, since a subclass may decide otherwise; with the options that its twin in C knows."""
_SEEN: dict[type, set[str]] = {
    BlockView: {"block", "depth", "r", "num_prefix", "has_cls", "features", "residual", "query", "key", "content_key"}
    | {"scale", "bias", "size", "previous_cls", "explain"},
    Plan: {"keep", "removed", "target", "all_merge", "blend", "weight", "restore_norm"}
    | {"cls_attention", "into", "notes"},
    TokenState: {"num_prefix", "size", "cls_attention", "provenance", "positions", "log_size", "offset"}
    | {"size_column"},
}
"""What a record may say without C getting it wrong."""


def _deciders(taught: Mapping[type[Method], tuple[Decider, set[str]]]) -> dict[type[Method], Decider]:
    """The twins of methods that have no option which their twin has never heard of."""
    return {
        kind: twin for kind, (twin, known) in taught.items() if known.issuperset(field.name for field in fields(kind))
    }


def _news(kind: Any, seen: set[str]) -> list[tuple[str, Any]]:
    """Fields of a record that C has never heard of, with their defaults."""
    return [(field.name, field.default) for field in fields(kind) if field.name not in seen]


_DECIDERS = _deciders(_TAUGHT)
_NEWS = {kind: _news(kind, seen) for kind, seen in _SEEN.items()}


class Compiled:
    """An `Accelerator`: one C call decides, another one merges. What C has not been taught, PyTorch does."""

    def __init__(self, kernels: Kernels) -> None:
        self._kernels = kernels

    def decide(self, method: Method, view: BlockView) -> Plan | None:
        """The method's plan, if it is one of ours and the tensors are plain float32 in CPU memory."""
        decider = _DECIDERS.get(type(method))
        return decider(self._kernels, method, view) if decider is not None and _is_known(view) else None

    def execute(self, plan: Plan, x: Tensor, state: TokenState) -> Moved | None:
        """(B, N, C) tokens after the plan, unless somebody will ask for a gradient through it."""
        if not (_is_known(plan) and _is_known(state)):
            return None
        if torch.is_grad_enabled() and (x.requires_grad or (plan.weight is not None and plan.weight.requires_grad)):
            return None
        return merge(self._kernels, plan, x, state)

    def attention_received(self, view: BlockView) -> Tensor | None:
        """The part of MCTF's decision that goes through the attention map, for whoever times it."""
        return decide.attention_received(self._kernels, view)


def merge(kernels: Kernels, plan: Plan, x: Tensor, state: TokenState) -> Moved | None:
    """As the core's executor; None for a blend that C does not know, or a tensor that is not C's."""
    if plan.blend not in BLENDS:
        return None
    (batch, kept), prefix, channels = plan.keep.shape, state.num_prefix, x.shape[2]
    tokens = new_floats((batch, prefix + kept, channels))
    size = log_size = None
    if state.size is not None or plan.target is not None:
        size, log_size = new_floats((batch, kept)), new_floats((batch, 1, 1, prefix + kept))
    attention = None if plan.cls_attention is None else new_floats((batch, kept))
    done = kernels.module.merge(
        kernels.threads(),
        prefix=prefix,
        residual=x.contiguous(),
        attention=_floats(plan.cls_attention),
        size=_floats(state.size),
        weight=_floats(plan.weight),
        blend=BLENDS[plan.blend],
        restore_norm=plan.restore_norm,
        keep=plan.keep.contiguous(),
        removed=plan.removed.contiguous(),
        target=None if plan.target is None else plan.target.contiguous(),
        next_tokens=tokens,
        next_size=size,
        log_size=log_size,
        next_attention=attention,
    )
    return Moved(tokens, size, attention, log_size) if done else None


def _floats(values: Tensor | None) -> Tensor | None:
    """Contiguous float32, whatever a method may have put there."""
    if values is None:
        return None
    return (values if values.dtype == torch.float32 else values.float()).contiguous()


def accelerator_for(x: Tensor) -> Compiled | None:
    """The compiled functions, if they may be used in a forward call of a model whose tokens are `x`.

    Nobody may be watching: compiling, exporting and tracing need PyTorch's operations, and so do transforms, forward
    gradients, and dispatch modes that count or fake operations. One answer serves a forward call, since asking takes
    longer than a small operation; the functions themselves look at every tensor again.

    Example:
        >>> accelerator_for(torch.zeros(1, dtype=torch.float64)) is None
        True
    """
    if type(x) is not Tensor or x.dtype != torch.float32 or not x.is_cpu or not is_eager():
        return None
    if torch._C._len_torch_dispatch_stack() or forward_ad._current_level >= 0:
        return None
    return _compiled()


@cache
def _compiled() -> Compiled | None:
    kernels = load()
    return None if kernels is None else Compiled(kernels)


def _is_known(record: object) -> bool:
    """Whether a record says nothing that C would overlook."""
    news = _NEWS.get(type(record))
    return news is not None and (not news or all(getattr(record, name) is default for name, default in news))
