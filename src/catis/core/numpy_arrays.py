"""The decisions' arithmetic in NumPy, on the memory of plain CPU tensors (see arrays.py)."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

import numpy as np
import torch
from torch import Tensor

__all__ = ["NumpyArrays"]

Array = Any


def _flat(index: Array, shape: tuple[int, ...]) -> Array:
    """Indices along the last axis as indices into the flattened array."""
    return index if shape[0] == 1 else index + np.arange(0, shape[0] * shape[1], shape[1])[:, None]


class NumpyArrays:
    """NumPy on the memory of CPU tensors; (B, N) arrays are indexed along their last axis."""

    where = staticmethod(np.where)
    minimum = staticmethod(np.minimum)
    sqrt = staticmethod(np.sqrt)

    @staticmethod
    def quiet() -> AbstractContextManager[object]:
        """No warnings about NaN and infinity."""
        return np.errstate(invalid="ignore", over="ignore")

    @staticmethod
    def read(tensor: Tensor) -> Array:
        """A tensor as an array; half precision as float32."""
        half = tensor.dtype in (torch.bfloat16, torch.float16)
        return (tensor.float() if half else tensor).detach().numpy()

    @staticmethod
    def write(array: Array) -> Tensor:
        """An array as a tensor."""
        return torch.from_numpy(array)

    @staticmethod
    def order(values: Array, descending: bool = False) -> Array:
        """Indices that sort the last axis, ties by index."""
        return np.argsort(-values if descending else values, axis=-1, kind="stable")

    @staticmethod
    def sort(values: Array) -> Array:
        """Sorted along the last axis."""
        return np.sort(values, axis=-1)

    @staticmethod
    def arange(start: int, stop: int, step: int, like: Array) -> Array:
        """Integers from start to stop."""
        return np.arange(start, stop, step)

    @staticmethod
    def repeat_rows(row: Array, like: Array) -> Array:
        """One row for every image of `like`."""
        return np.broadcast_to(row, (like.shape[0], row.shape[-1]))

    @staticmethod
    def join(*parts: Array) -> Array:
        """Side by side, along the last axis."""
        return np.concatenate(parts, axis=-1)

    @staticmethod
    def take(values: Array, index: Array) -> Array:
        """values[b, index[b]] for every image b."""
        return values.reshape(-1).take(_flat(index, values.shape))

    @staticmethod
    def put(values: Array, index: Array, entry: Any) -> Array:
        """A copy with values[b, index[b]] = entry."""
        values = values.copy()
        values.reshape(-1)[_flat(index, values.shape)] = entry
        return values

    @staticmethod
    def full(shape: tuple[int, ...], value: float, like: Array) -> Array:
        """One value everywhere, in the dtype of `like`."""
        return np.full(shape, value, like.dtype)

    @staticmethod
    def stack(*parts: Array) -> Array:
        """One below the other, along the first axis."""
        return np.concatenate(parts)

    @staticmethod
    def block_diagonal(rows: Array) -> Array:
        """(B, H, H * d) matrix with row h of (B, H, d) in its h-th stretch of columns."""
        batch, count, width = rows.shape
        matrix = np.zeros((batch, count, count, width), rows.dtype)
        matrix.reshape(batch, count * count, width)[:, :: count + 1] = rows
        return matrix.reshape(batch, count, count * width)

    @staticmethod
    def partners(scores: Tensor, rows: Array) -> Array:
        """(B, r) where rows `rows` (B, r) of (B, M, N) scores have their maximum; NumPy looks at these rows only."""
        array = NumpyArrays.read(scores)
        return array.reshape(-1, array.shape[2])[_flat(rows, array.shape)].argmax(-1)

    @staticmethod
    def count(mask: Array) -> Array:
        """(B, 1) how many are true."""
        return np.add.reduce(mask, -1, np.intp, keepdims=True)

    @staticmethod
    def running_count(mask: Array) -> Array:
        """How many are true up to and including each place."""
        return np.cumsum(mask, axis=-1)

    @staticmethod
    def at_most(values: Array, limit: Any) -> Array:
        """Capped from above."""
        return np.minimum(values, limit)

    @staticmethod
    def at_least(values: Array, limit: Any) -> Array:
        """Capped from below."""
        return np.maximum(values, limit)

    @staticmethod
    def cast(values: Array, dtype: torch.dtype) -> Array:
        """float64 for float64, float32 for anything else."""
        return values.astype(np.float64 if dtype == torch.float64 else np.float32, copy=False)

    @staticmethod
    def mean(values: Array) -> Array:
        """(B, 1) mean over the last axis."""
        return np.add.reduce(values, -1, keepdims=True) / values.shape[-1]

    @staticmethod
    def sum(values: Array) -> Array:
        """(B, 1) sum over the last axis."""
        return np.add.reduce(values, -1, keepdims=True)

    @staticmethod
    def finite(values: Array) -> Array:
        """What is not finite becomes 0."""
        return np.where(np.isfinite(values), values, 0)
