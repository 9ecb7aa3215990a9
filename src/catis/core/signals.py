"""Unary importance signals of the patch tokens, and their fusion (SPEC 4, CATIS 1-3)."""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["activation", "euclidean", "l2", "momentum", "zscore"]

# A spread this many rounding errors wide is none: a constant signal must give zeros, not amplified noise.
_ROUNDING = 8.0


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
    mean = features.mean(1, keepdim=True)
    squared = (features - mean).square_()
    variance = squared.mean(1)
    floor = (_ROUNDING * torch.finfo(features.dtype).eps * mean[:, 0]).square()
    precision = torch.where(variance > floor, variance.reciprocal(), 0.0)
    return torch.bmm(squared, precision.unsqueeze(-1)).squeeze(-1).sqrt()


def euclidean(features: Tensor) -> Tensor:
    """|| z - mu ||_2: s_nf without the per-dimension scale (norm_F ablation)."""
    return torch.linalg.vector_norm(features - features.mean(1, keepdim=True), dim=-1)


def l2(features: Tensor) -> Tensor:
    """|| z ||_2: s_nf without any population statistic (norm_F ablation)."""
    return torch.linalg.vector_norm(features, dim=-1)


def momentum(attention: Tensor, previous: Tensor | None, gamma: float) -> Tensor:
    """s_cls = (1 + gamma) A_cls[l] - gamma A_cls[l-1] (Eq. momentum); A_cls alone where there is no history."""
    return attention if previous is None else torch.lerp(previous, attention, 1.0 + gamma)


def zscore(signal: Tensor) -> Tensor:
    """Zero mean, unit variance over the tokens of each image (Eq. zscore); zeros for a constant signal.

    Example:
        >>> zscore(torch.tensor([[1.0, 3.0], [2.0, 2.0]]))
        tensor([[-1.,  1.],
                [ 0.,  0.]])
    """
    variance, mean = torch.var_mean(signal, -1, correction=0, keepdim=True)
    floor = (_ROUNDING * torch.finfo(signal.dtype).eps * signal.abs().amax(-1, keepdim=True)).square()
    return (signal - mean) * torch.where(variance > floor, variance.rsqrt(), 0.0)
