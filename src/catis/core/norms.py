"""Norms of merged tokens: vectors that point apart have a mean that is shorter than they are."""

from __future__ import annotations

import torch
from torch import Tensor

_SMALLEST = 1e-30
"""Stands for the norm of a zero vector, which stays zero."""


def norms(tokens: Tensor) -> Tensor:
    """(B, N, 1) Euclidean norms of (B, N, C) tokens."""
    euclidean: Tensor = torch.linalg.vector_norm(tokens, dim=-1, keepdim=True)
    return euclidean


def with_norms(tokens: Tensor, wanted: Tensor) -> Tensor:
    """(B, N, C) tokens at the norms (B, N, 1) that are wanted; one that has its norm already stays as it is.

    Example:
        >>> with_norms(torch.tensor([[[3.0, 4.0]]]), torch.tensor([[[10.0]]])).flatten().tolist()
        [6.0, 8.0]
    """
    return tokens * (wanted / norms(tokens).clamp_min(_SMALLEST))
