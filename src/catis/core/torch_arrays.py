"""The decisions' arithmetic in PyTorch, in forms that compile and that ONNX runtimes have (see arrays.py)."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor

from catis.core.order import order_by, partition

__all__ = ["TorchArrays"]

Array = Any


class TorchArrays:
    """The same in PyTorch, in forms that compile and that ONNX runtimes have."""

    where = staticmethod(torch.where)
    minimum = staticmethod(torch.minimum)
    sqrt = staticmethod(torch.sqrt)

    @staticmethod
    def quiet() -> AbstractContextManager[object]:
        """PyTorch does not warn."""
        return nullcontext()

    @staticmethod
    def read(tensor: Tensor) -> Array:
        """The tensor itself."""
        return tensor

    @staticmethod
    def write(array: Array) -> Tensor:
        """The tensor itself."""
        return array  # type: ignore[no-any-return]

    @staticmethod
    def order(values: Array, descending: bool = False) -> Array:
        """Indices that sort the last axis, ties by index; of a mask, the unmarked first."""
        return partition(~values) if values.dtype == torch.bool else order_by(values, descending=descending)

    @staticmethod
    def sort(values: Array) -> Array:
        """Sorted along the last axis."""
        return values.sort(-1).values

    @staticmethod
    def arange(start: int, stop: int, step: int, like: Array) -> Array:
        """Integers from start to stop."""
        return torch.arange(start, stop, step, device=like.device)

    @staticmethod
    def repeat_rows(row: Array, like: Array) -> Array:
        """One row for every image of `like`."""
        return row.expand(like.shape[0], -1)

    @staticmethod
    def join(*parts: Array) -> Array:
        """Side by side, along the last axis."""
        return torch.cat(parts, -1)

    @staticmethod
    def take(values: Array, index: Array) -> Array:
        """values[b, index[b]] for every image b."""
        return values.gather(1, index)

    @staticmethod
    def put(values: Array, index: Array, entry: Any) -> Array:
        """A copy with values[b, index[b]] = entry; TensorRT scatters no booleans."""
        if values.dtype == torch.bool:
            return values.to(torch.float32).scatter(1, index, float(entry)) > 0
        return values.scatter(1, index, entry)

    @staticmethod
    def full(shape: tuple[int, ...], value: float, like: Array) -> Array:
        """One value everywhere, in the dtype of `like`."""
        return torch.full(shape, value, dtype=like.dtype, device=like.device)

    @staticmethod
    def stack(*parts: Array) -> Array:
        """One below the other, along the first axis."""
        return torch.cat(parts)

    @staticmethod
    def block_diagonal(rows: Array) -> Array:
        """(B, H, H * d) matrix with row h of (B, H, d) in its h-th stretch of columns."""
        batch, count, width = rows.shape
        diagonal = torch.eye(count, dtype=rows.dtype, device=rows.device)[:, :, None] * rows[:, :, None, :]
        return diagonal.view(batch, count, count * width)

    @staticmethod
    def partners(scores: Tensor, rows: Array) -> Array:
        """(B, r) where rows `rows` (B, r) of (B, M, N) scores have their maximum."""
        return scores.argmax(-1).gather(1, rows)

    @staticmethod
    def count(mask: Array) -> Array:
        """(B, 1) how many are true."""
        return mask.sum(-1, keepdim=True)

    @staticmethod
    def running_count(mask: Array) -> Array:
        """How many are true up to and including each place; TensorRT sums no booleans."""
        return mask.to(torch.float32).cumsum(-1).long()

    @staticmethod
    def at_most(values: Array, limit: Any) -> Array:
        """Capped from above; TensorRT clips no integers."""
        return torch.where(values > limit, limit, values)

    @staticmethod
    def at_least(values: Array, limit: Any) -> Array:
        """Capped from below; TensorRT clips no integers."""
        return torch.where(values < limit, limit, values)

    @staticmethod
    def cast(values: Array, dtype: torch.dtype) -> Array:
        """float64 for float64, float32 for anything else."""
        return values.to(torch.promote_types(dtype, torch.float32))

    @staticmethod
    def mean(values: Array) -> Array:
        """(B, 1) mean over the last axis."""
        return values.mean(-1, keepdim=True)

    @staticmethod
    def sum(values: Array) -> Array:
        """(B, 1) sum over the last axis."""
        return values.sum(-1, keepdim=True)

    @staticmethod
    def finite(values: Array) -> Array:
        """What is not finite becomes 0."""
        return torch.where(values.isfinite(), values, 0.0)
