"""Merging as one compiled call: the executor on float32 CPU tensors."""

from __future__ import annotations

import torch
from torch import Tensor

from catis.core.accelerator import Moved
from catis.core.plan import Plan
from catis.core.state import TokenState
from catis.native.library import Kernels, new_floats

BLENDS = {"size": 0, "mean": 1, "weight": 2, "mlerp": 3}
"""Blends that the compiled `merge` knows; the numbers are those of kernels.h."""


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
