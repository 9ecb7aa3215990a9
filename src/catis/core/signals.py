"""Unary importance signals of the patch tokens, and their fusion (docs/methods.md, CATIS)."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor

_NO_SPREAD = 1e-5
"""A signal whose standard deviation is at most this share of its mean is constant: it scores zero, not noise."""
_TINY = 1e-12
"""Least variance of features: far below any that tells tokens apart, far above rounding."""
_NO_SPREAD_SQUARED = 1e-10
"""Added to a variance, in squares of the signal's mean: the square of what eager code calls no spread."""


def activation(features: Tensor) -> Tensor:
    """s_nf = || (z - mu) / sigma ||_2 over the patch tokens of each image (Eq. norm-f).

    Returns:
        (B, N_p) scores. A dimension with no spread contributes nothing.

    Example:
        >>> activation(torch.tensor([[[1.0, 5.0], [3.0, 5.0]]]))
        tensor([[1., 1.]])
    """
    if torch.compiler.is_exporting():
        return activation_in_graph(features)
    mean = _mean(features)
    centred = features - mean
    squared = centred * centred
    variance = in_single(_mean(squared))
    rounding = 8 * torch.finfo(features.dtype).eps * in_single(mean)  # what a constant dimension may differ by
    precision = 1.0 / torch.where(variance > rounding * rounding, variance, math.inf)
    return torch.bmm(precision.to(features.dtype), squared.transpose(1, 2)).squeeze(1).sqrt()


def euclidean(features: Tensor) -> Tensor:
    """|| z - mu ||_2: s_nf without the per-dimension scale (norm_F ablation)."""
    return l2(features - _mean(features))


def l2(features: Tensor) -> Tensor:
    """|| z ||_2: s_nf without any population statistic (norm_F ablation)."""
    # Rows one after the other in memory: then rounding does not depend on how many images there are.
    length: Tensor = torch.linalg.vector_norm(features.contiguous(), dim=-1)
    return length


def _mean(features: Tensor) -> Tensor:
    """(B, 1, C) mean over the tokens, as a product: the fastest reduction on CPU, and the same for any batch."""
    batch, tokens, _ = features.shape
    if torch.compiler.is_exporting():  # a constant, where the batch is free
        return features.new_full((1, tokens), 1 / tokens) @ features
    return torch.bmm(features.new_full((batch, 1, tokens), 1 / tokens), features)


def in_single(values: Tensor) -> Tensor:
    """Half precision as float32; what is wider stays."""
    return values.float() if values.dtype in (torch.bfloat16, torch.float16) else values


def as_shares(weights: Tensor) -> Tensor:
    """(B, N) weights that add up to 1 in each image; zeros stay zeros."""
    return weights / weights.sum(-1, keepdim=True).clamp_min(torch.finfo(weights.dtype).tiny)


def momentum(attention: Tensor, previous: Tensor | None, gamma: float) -> Tensor:
    """s_cls = (1 + gamma) A_cls[l] - gamma A_cls[l-1] (Eq. momentum); A_cls alone where there is no history."""
    return attention if previous is None else (1.0 + gamma) * attention - gamma * previous


def zscore(signal: Tensor) -> Tensor:
    """Zero mean, unit variance over the tokens of each image (Eq. zscore); zeros for a constant signal.

    An image of infinities gives NaN, which `fuse` turns to zero.

    Example:
        >>> zscore(torch.tensor([[1.0, 3.0], [2.0, 2.0]]))
        tensor([[-1.,  1.],
                [ 0.,  0.]])
    """
    signal = in_single(signal)
    mean = signal.mean(-1, keepdim=True)
    centred = signal - mean
    spread = (centred * centred).mean(-1, keepdim=True).sqrt()
    return centred / torch.where(spread > _NO_SPREAD * mean.abs(), spread, math.inf)


def fuse(norm: Tensor | None, context: Tensor | None, w_cls: float) -> Tensor:
    """S = w_cls z(s_cls) + (1 - w_cls) z(s_nf), or the only one given; finite whatever went in (Eq. fusion).

    Args:
        norm: (B, N_p) z(s_nf), or None.
        context: (B, N_p) z(s_cls), or None; not both.
        w_cls: Weight of s_cls.
    """
    if norm is None or context is None:
        score = norm if context is None else context
        assert score is not None, "a score needs a signal"
    else:
        score = w_cls * context + (1.0 - w_cls) * norm
    return torch.where(score.abs() < math.inf, score, 0.0)


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
    return F.layer_norm(signal, (tokens,), signal.new_full((tokens,), share), eps=_NO_SPREAD_SQUARED * squared_mean)
