"""The compiled functions behind the core's `Accelerator`: which calls are theirs, and which method has which."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import torch
from torch import Tensor
from torch.autograd import forward_ad

from catis.core.accelerator import Moved
from catis.core.eager import is_eager
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
from catis.native.library import Kernels, load
from catis.native.merge import merge
from catis.reference.ratio import PiToMeReference, ToFuReference, ToMeReference

__all__ = ["Compiled", "accelerator_for"]

_DECIDERS: dict[type[Method], Callable[[Kernels, Any, BlockView], Plan | None]] = {
    ToMe: decide.decide_tome,
    ToMeReference: decide.decide_tome,
    ToFu: decide.decide_tofu,
    ToFuReference: decide.decide_tofu,
    PiToMe: decide.decide_pitome,
    PiToMeReference: decide.decide_pitome,
    MCTF: decide.decide_mctf,
    Catis: decide.decide_catis,
}
"""By the very class: a subclass may decide otherwise."""


class Compiled:
    """An `Accelerator`: one C call decides, another one merges."""

    def __init__(self, kernels: Kernels) -> None:
        self._kernels = kernels

    def decide(self, method: Method, view: BlockView) -> Plan | None:
        """The method's plan, if it is one of ours and the tensors are plain float32 in CPU memory."""
        decider = _DECIDERS.get(type(method))
        return None if decider is None else decider(self._kernels, method, view)

    def execute(self, plan: Plan, x: Tensor, state: TokenState) -> Moved | None:
        """(B, N, C) tokens after the plan, unless somebody will ask for a gradient through it."""
        if torch.is_grad_enabled() and (x.requires_grad or (plan.weight is not None and plan.weight.requires_grad)):
            return None
        return merge(self._kernels, plan, x, state)

    def attention_received(self, view: BlockView) -> Tensor | None:
        """The part of MCTF's decision that goes through the attention map, for whoever times it."""
        return decide.attention_received(self._kernels, view)


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
