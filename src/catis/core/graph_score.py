"""CATIS' score in as few operations as can be, for exported graphs, where each is a node that a runtime has to call."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor

_TINY = 1e-12
"""Least variance of features: far below any that tells tokens apart, far above rounding."""
_NO_SPREAD = 1e-10
"""Added to a variance, in squares of the signal's mean: the square of what eager code calls no spread."""


def activation_in_graph(features: Tensor) -> Tensor:
    """s_nf of (B, N_p, C) features. Means over tokens are products with a row, so that nothing has to be transposed."""
    tokens = features.shape[1]
    mean = features.new_full((1, tokens), 1 / tokens)
    centred = features - mean @ features
    squared = centred * centred
    precision = 1.0 / (mean @ squared).clamp_min(_TINY)  # not a sum: the exporter takes 1e-12 for 0 and drops it
    return (squared @ precision.transpose(1, 2)).squeeze(-1).sqrt()


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
