"""CATIS' score in as few operations as can be, for exported graphs, where each is a node that a runtime has to call."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import torch
import torch.nn.functional as F
from torch import Tensor

_TINY = 1e-12
"""Added to a variance of features: far below any that tells tokens apart, far above rounding."""
_NO_SPREAD = 1e-10
"""Added to a variance, in squares of the signal's mean: the square of what eager code calls no spread."""
_written_out: ContextVar[bool] = ContextVar("written_out", default=False)


@contextmanager
def writing_out_attention() -> Iterator[None]:
    """For a graph in which attention becomes two products and a softmax, so that its maps are there for all to read."""
    token = _written_out.set(True)
    try:
        yield
    finally:
        _written_out.reset(token)


def attention_is_written_out() -> bool:
    """Whether a graph is made that has attention maps in it."""
    # In this order: torch.compile before 2.14 cannot read a ContextVar.
    return torch.compiler.is_exporting() and _written_out.get()


def activation_in_graph(features: Tensor) -> Tensor:
    """s_nf of (B, N_p, C) features: a layer norm over the tokens of each dimension, and its length over dimensions."""
    spread = F.layer_norm(features.transpose(1, 2), (features.shape[1],), eps=_TINY)
    score: Tensor = torch.linalg.vector_norm(spread, dim=1)
    return score


def fuse_in_graph(norm: Tensor | None, context: Tensor | None, w_cls: float, width: int) -> Tensor:
    """S of raw (B, N_p) signals: each z-scored by a layer norm, whose weight is the signal's share.

    The mean of s_nf is near sqrt(width), that of s_cls is 1 / N_p; a signal with no spread beside it scores near zero.
    """
    if norm is None or context is None:
        only = norm if context is None else context
        assert only is not None, "a score needs a signal"
        return _weighed(only, 1.0, width if context is None else only.shape[1] ** -2)
    return _weighed(context, w_cls, context.shape[1] ** -2) + _weighed(norm, 1.0 - w_cls, width)


def _weighed(signal: Tensor, share: float, squared_mean: float) -> Tensor:
    tokens = signal.shape[-1]
    return F.layer_norm(signal, (tokens,), signal.new_full((tokens,), share), eps=_NO_SPREAD * squared_mean)
