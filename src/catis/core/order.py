"""The sorts: ties go to the earlier token, in PyTorch and after export."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor


class Ranked(NamedTuple):
    """Values in the order asked for, and where each was."""

    values: Tensor
    indices: Tensor


def order_by(values: Tensor, *, descending: bool = False) -> Tensor:
    """Indices that sort the last dimension, ties by index.

    Example:
        >>> order_by(torch.tensor([2.0, 1.0, 2.0]), descending=True).tolist()
        [0, 2, 1]
    """
    if torch.compiler.is_exporting():
        return _top_k(values, values.shape[-1], largest=descending).indices
    return values.argsort(dim=-1, descending=descending, stable=True)


def top(values: Tensor, count: int) -> Ranked:
    """The `count` largest of the last dimension, largest first, ties by index.

    Example:
        >>> top(torch.tensor([1.0, 2.0, 2.0]), 2).indices.tolist()
        [1, 2]
    """
    if torch.compiler.is_exporting():
        return _top_k(values, count, largest=True)
    ranked = values.sort(dim=-1, descending=True, stable=True)
    return Ranked(ranked.values[..., :count], ranked.indices[..., :count])


def place_of_best(values: Tensor) -> Tensor:
    """(B, R) where the largest of each row of (B, R, N) is, the first of equals.

    Example:
        >>> place_of_best(torch.tensor([[[1.0, 3.0, 3.0]]])).tolist()
        [[1]]
    """
    if torch.compiler.is_exporting():  # down columns, where OpenVINO looks through many rows at once
        return values.transpose(1, 2).argmax(1)
    return values.argmax(-1)


def ascending(index: Tensor) -> Tensor:
    """The (B, K) indices of each image in ascending order.

    Example:
        >>> ascending(torch.tensor([[3, 0, 2]])).tolist()
        [[0, 2, 3]]
    """
    if torch.compiler.is_exporting():
        return _top_k(index, index.shape[-1], largest=False).values
    return index.sort(-1).values


def _top_k(values: Tensor, count: int, *, largest: bool) -> Ranked:
    """ONNX has no stable sort; its TopK breaks ties by index. A sort would work out K at run time, in three nodes."""
    return Ranked(*values.topk(count, dim=-1, largest=largest))
