"""The one sort: ties go to the earlier token, in PyTorch and after export."""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["order_by"]


def order_by(values: Tensor, *, descending: bool = False) -> Tensor:
    """Indices that sort the last dimension, ties by index.

    Example:
        >>> order_by(torch.tensor([2.0, 1.0, 2.0]), descending=True).tolist()
        [0, 2, 1]
    """
    if torch.compiler.is_exporting():
        # ONNX has no stable sort, but the TopK that a plain sort becomes breaks ties by index; it takes no booleans.
        sortable = values.to(torch.int32) if values.dtype == torch.bool else values
        return sortable.sort(dim=-1, descending=descending).indices
    return values.argsort(dim=-1, descending=descending, stable=True)
