"""Whole rows of token tensors by index."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from catis.core.arrays import NumpyArrays, arrays_for

__all__ = ["take_rows"]


def take_rows(values: Tensor, index: Tensor) -> Tensor:
    """Rows `index` (B, K) of (B, N, D), or of a batch-shared (N, D), as (B, K, D).

    One flat index_select copies whole rows, where gather goes by element.

    Example:
        >>> import torch
        >>> take_rows(torch.tensor([[[1.0], [2.0], [3.0]]]), torch.tensor([[2, 0]])).flatten().tolist()
        [3.0, 1.0]
    """
    xp = arrays_for(index)
    batch, kept = index.shape
    rows: Any = xp.read(index)
    if values.ndim == 3 and not (xp is NumpyArrays and batch == 1):
        rows = rows + (xp.arange(0, batch, 1, rows) * values.shape[1])[:, None]
    return values.reshape(-1, values.shape[-1]).index_select(0, xp.write(rows.reshape(-1))).view(batch, kept, -1)
