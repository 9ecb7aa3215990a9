"""Whole rows of token tensors by index."""

from __future__ import annotations

import torch
from torch import Tensor


def take_rows(values: Tensor, index: Tensor) -> Tensor:
    """Rows `index` (B, K) of (B, N, D), or of a batch-shared (N, D), as (B, K, D).

    One flat index_select copies whole rows, where gather goes by element.

    Example:
        >>> take_rows(torch.tensor([[[1.0], [2.0], [3.0]]]), torch.tensor([[2, 0]])).flatten().tolist()
        [3.0, 1.0]
    """
    batch, kept = index.shape
    rows = index.reshape(-1) if values.ndim == 2 else flat_index(index, values.shape[1])
    return values.reshape(-1, values.shape[-1]).index_select(0, rows).view(batch, kept, values.shape[-1])


def flat_index(index: Tensor, stride: int) -> Tensor:
    """(B, K) indices within each image as (B * K,) indices into the whole batch, `stride` entries per image."""
    first = torch.arange(index.shape[0], device=index.device) * stride
    return (index + first[:, None]).reshape(-1)
