"""Whole rows of token tensors by index."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor


def take_rows(values: Tensor, index: Tensor) -> Tensor:
    """Rows `index` (B, K) of (B, N, D), or of a batch-shared (N, D), as (B, K, D).

    One flat index_select copies whole rows, where gather goes by element.

    Example:
        >>> take_rows(torch.tensor([[[1.0], [2.0], [3.0]]]), torch.tensor([[2, 0]])).flatten().tolist()
        [3.0, 1.0]
    """
    if torch.compiler.is_exporting() and values.ndim == 3:  # indices of two dimensions: nothing to flatten and to view
        return rows_of_batch(values, index + first_rows(index, values.shape[1]))
    batch, kept = index.shape
    rows = index.reshape(-1) if values.ndim == 2 else flat_index(index, values.shape[1])
    return values.reshape(-1, values.shape[-1]).index_select(0, rows).view(batch, kept, values.shape[-1])


def flat_index(index: Tensor, stride: int) -> Tensor:
    """(B, K) indices within each image as (B * K,) indices into the whole batch, `stride` entries per image."""
    return (index + first_rows(index, stride)).reshape(-1)


def first_rows(index: Tensor, stride: int) -> Tensor:
    """(B, 1) where each image begins in the whole batch, `stride` entries per image."""
    return torch.arange(index.shape[0], device=index.device)[:, None] * stride


def rows_of_batch(values: Tensor, index: Tensor) -> Tensor:
    """Rows `index` (B, K), counted over the whole batch, of (B, N, D) as (B, K, D): a single node after export."""
    return F.embedding(index, values.reshape(-1, values.shape[-1]))
