"""The sorts: ties go to the earlier token, in PyTorch and after export."""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["order_by", "partition"]


def order_by(values: Tensor, *, descending: bool = False) -> Tensor:
    """Indices that sort the last dimension, ties by index.

    Example:
        >>> order_by(torch.tensor([2.0, 1.0, 2.0]), descending=True).tolist()
        [0, 2, 1]
    """
    if torch.compiler.is_exporting():  # ONNX has no stable sort; the TopK that a plain one becomes breaks ties by index
        return values.sort(dim=-1, descending=descending).indices
    return values.argsort(dim=-1, descending=descending, stable=True)


def partition(first: Tensor) -> Tensor:
    """Indices of a (B, N) mask, the marked ones in front, each part in token order.

    Example:
        >>> partition(torch.tensor([[False, True, False, True]])).tolist()
        [[1, 3, 0, 2]]
    """
    if torch.compiler.is_exporting():  # nothing but ties, and OpenVINO's TopK breaks them its own way: distinct keys
        count = first.shape[1]
        keys = torch.arange(count, device=first.device) + count * (~first).to(torch.float32)
        return keys.sort(dim=-1).indices
    return (~first).argsort(dim=-1, stable=True)
