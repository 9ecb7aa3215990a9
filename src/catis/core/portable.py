"""Small arithmetic on masks and counts in the forms that every ONNX runtime has."""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["at_least", "at_most", "count", "mark", "running_count"]


def count(mask: Tensor) -> Tensor:
    """(B, 1) how many entries of a (B, N) mask are true."""
    return mask.sum(-1, keepdim=True)


def running_count(mask: Tensor) -> Tensor:
    """How many entries are true up to and including each place; TensorRT adds up no booleans.

    Example:
        >>> running_count(torch.tensor([[True, False, True]])).tolist()
        [[1, 1, 2]]
    """
    return mask.to(torch.float32).cumsum(-1).long()


def mark(count: int, index: Tensor) -> Tensor:
    """(B, count) mask that is true at (B, R) indices; TensorRT scatters no booleans.

    Example:
        >>> mark(3, torch.tensor([[2]])).tolist()
        [[False, False, True]]
    """
    nothing = torch.zeros(index.shape[0], count, dtype=torch.float32, device=index.device)
    return nothing.scatter(1, index, 1.0) > 0


def at_most(values: Tensor, limit: int) -> Tensor:
    """Integers capped from above; TensorRT clips no integers."""
    return torch.where(values > limit, limit, values)


def at_least(values: Tensor, limit: int) -> Tensor:
    """Integers capped from below; TensorRT clips no integers."""
    return torch.where(values < limit, limit, values)
