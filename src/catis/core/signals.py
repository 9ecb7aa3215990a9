"""Unary importance signals of the patch tokens, and their fusion (SPEC 4, CATIS 1-3)."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from catis.core.arrays import arrays_for

__all__ = ["activation", "euclidean", "fuse", "l2", "momentum", "standardise", "zscore"]

_NO_SPREAD = 1e-5
"""A signal whose standard deviation is at most this share of its mean is constant: it scores zero, not noise."""


def activation(features: Tensor) -> Tensor:
    """s_nf = || (z - mu) / sigma ||_2 over the patch tokens of each image (Eq. norm-f).

    Args:
        features: (B, N_p, C) pre-attention features.

    Returns:
        (B, N_p) scores. A dimension with no spread contributes nothing.

    Example:
        >>> activation(torch.tensor([[[1.0, 5.0], [3.0, 5.0]]]))
        tensor([[1., 1.]])
    """
    mean = _mean(features)
    squared = (features - mean).square_()
    variance = _mean(squared)
    xp = arrays_for(features)
    spread = xp.read(variance)
    floor = (8 * torch.finfo(features.dtype).eps * xp.read(mean)) ** 2  # a constant dimension differs by rounding alone
    precision = xp.write(1.0 / xp.where(spread > floor, spread, float("inf"))).to(features.dtype)
    return torch.bmm(precision, squared.transpose(1, 2)).squeeze(1).sqrt_()


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
    return torch.bmm(features.new_full((batch, 1, tokens), 1 / tokens), features)


def momentum(attention: Any, previous: Any, gamma: float) -> Any:
    """s_cls = (1 + gamma) A_cls[l] - gamma A_cls[l-1] (Eq. momentum); A_cls alone where there is no history.

    Tensors or arrays, (B, N_p) each; `previous` may be None.
    """
    return attention if previous is None else (1.0 + gamma) * attention - gamma * previous


def zscore(signal: Tensor) -> Tensor:
    """Zero mean, unit variance over the tokens of each image (Eq. zscore); zeros for a constant signal.

    Example:
        >>> zscore(torch.tensor([[1.0, 3.0], [2.0, 2.0]]))
        tensor([[-1.,  1.],
                [ 0.,  0.]])
    """
    xp = arrays_for(signal)
    standard: Tensor = xp.write(standardise(xp, xp.read(signal)))
    return standard


def standardise(xp: Any, values: Any) -> Any:
    """`zscore` of an array; an image of infinities gives NaN, which `fuse` turns to zero."""
    with xp.quiet():
        mean = xp.mean(values)
        centred = values - mean
        spread = xp.sqrt(xp.mean(centred * centred))
        return centred / xp.where(spread > _NO_SPREAD * abs(mean), spread, float("inf"))


def fuse(xp: Any, activation_score: Any, context_score: Any, w_cls: float) -> tuple[Any, Any, Any]:
    """z(s_nf), z(s_cls), and w_cls * z(s_cls) + (1 - w_cls) * z(s_nf), finite whatever went in (Eq. fusion).

    Args:
        xp: Array library, from `arrays_for`.
        activation_score: (B, N_p) s_nf, as an array.
        context_score: (B, N_p) s_cls, or None where the score is s_nf alone.
        w_cls: Weight of s_cls.
    """
    if context_score is None:
        norm = standardise(xp, activation_score)
        return norm, None, xp.finite(norm)
    batch = activation_score.shape[0]
    both = standardise(xp, xp.stack(activation_score, context_score))
    norm, context = both[:batch], both[batch:]
    return norm, context, xp.finite(w_cls * context + (1.0 - w_cls) * norm)
