"""Moves the rows of a Plan on plain CPU tensors: only rows that merge are touched, by flat indices made in NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from catis.core.numpy_arrays import NumpyArrays
from catis.core.plan import Plan

__all__ = ["FlatMoves"]


class FlatMoves:
    """The M removed tokens that merge, over the whole batch, and the survivors they go into.

    Evicted tokens are not among them, so M depends on the images: that is what eager CPU code may do and StaticMoves
    may not. Every operation here costs microseconds by itself, so each index is made once.

    Args:
        plan: The plan; its indices are plain CPU tensors.
        num_prefix: Prefix tokens P in front of the N_p patch tokens.
    """

    def __init__(self, plan: Plan, num_prefix: int) -> None:
        self._keep, removed = plan.keep.numpy(), plan.removed.numpy()
        (self._batch, self._kept), self._prefix = self._keep.shape, num_prefix
        patches = self._kept + removed.shape[1]
        self._survivor = self._offset(self._keep, patches)
        self._merges = plan.target is not None
        if plan.target is None:
            return
        target = plan.target.numpy()
        removed, slot = self._offset(removed, patches), self._offset(target, self._kept)
        image = np.arange(1, self._batch + 1)[:, None] if num_prefix and self._batch > 1 else 1
        rows, slots = removed + num_prefix * image, slot + num_prefix * image
        if plan.all_merge:
            chosen = (removed.reshape(-1), slot.reshape(-1), rows.reshape(-1), slots.reshape(-1))
        else:
            merged = target >= 0
            chosen = (removed[merged], slot[merged], rows[merged], slots[merged])
        # (M,) each, flat over the batch: among patch tokens, and among all tokens for features
        self._source, self._slot = chosen[:2]
        self._source_row, self._slot_row = torch.from_numpy(chosen[2]), torch.from_numpy(chosen[3])

    def kept_rows(self, x: Tensor) -> Tensor:
        """(B, P + K, C) prefix and survivors of (B, N, C)."""
        index = self._keep
        if self._prefix:
            index = np.empty((self._batch, self._prefix + self._kept), np.int64)
            index[:, : self._prefix] = range(self._prefix)
            np.add(self._keep, self._prefix, out=index[:, self._prefix :])
        index = self._offset(index, x.shape[1]).reshape(-1)
        return _select(x, torch.from_numpy(index)).view(self._batch, -1, x.shape[2])

    def removed_rows(self, x: Tensor) -> Tensor:
        """(M, C) tokens that merge."""
        return _select(x, self._source_row)

    def destination_rows(self, kept: Tensor) -> Tensor:
        """(M, C) the survivor that each of them merges into."""
        return _select(kept, self._slot_row)

    def add(self, kept: Tensor, step: Tensor) -> Tensor:
        """Survivors plus (M, C) steps; `kept` is overwritten."""
        kept.view(-1, kept.shape[2]).index_add_(0, self._slot_row, step)
        return kept

    def group_sum(self, values: Tensor) -> Tensor:
        """(B, K) sum of (B, N_p) values over each survivor's group; its own value where nothing merges."""
        array = NumpyArrays.read(values).reshape(-1)
        total = array.take(self._survivor)
        if self._merges:
            np.add.at(total.reshape(-1), self._slot, array.take(self._source))
        return torch.from_numpy(total)

    def group_count(self) -> Tensor:
        """(B, K) members of each survivor's group, float32."""
        total = np.ones((self._batch, self._kept), np.float32)
        np.add.at(total.reshape(-1), self._slot, 1.0)
        return torch.from_numpy(total)

    def shares(self, weight: Tensor | None, total: Tensor, dtype: torch.dtype) -> Tensor:
        """(M, 1) weight of each merging token over the total weight of its group."""
        reached: Any = NumpyArrays.cast(NumpyArrays.read(total), dtype).reshape(-1).take(self._slot)
        own: Any = 1.0
        if weight is not None:
            own = NumpyArrays.cast(NumpyArrays.read(weight), dtype).reshape(-1).take(self._source)
        return torch.from_numpy(own / reached).unsqueeze(-1)

    def rescale(self, merged: Tensor, destination: Tensor, gone: Tensor, by_destination: bool) -> Tensor:
        """MLERP: merged vectors get the length of their longest member; `merged` is overwritten."""
        if not len(gone):
            return merged
        rows, group = np.unique(self._slot_row.numpy(), return_inverse=True)
        index, member = torch.from_numpy(rows), torch.from_numpy(group)
        own, others = destination.norm(dim=-1), gone.norm(dim=-1)
        zeros, found = own.new_zeros(len(rows)), _select(merged, index)
        longest = zeros.scatter_reduce(0, member, torch.maximum(own, others), "amax")
        length = zeros.scatter_reduce(0, member, own, "amax") if by_destination else found.norm(dim=-1)
        scale = torch.where(length > 0, longest / length, 1.0)
        merged.view(-1, merged.shape[2]).index_copy_(0, index, found * scale.unsqueeze(-1))
        return merged

    def maximum(self, kept: Tensor, gone: Tensor) -> Tensor:
        """Elementwise maximum of each survivor's group."""
        index = self._slot_row.unsqueeze(-1).expand_as(gone)
        return kept.view(-1, kept.shape[2]).scatter_reduce(0, index, gone, "amax").view_as(kept)

    def _offset(self, index: Any, stride: int) -> Any:
        """Indices within an image as indices into the whole batch, `stride` entries per image."""
        return index if self._batch == 1 else index + np.arange(0, self._batch * stride, stride)[:, None]


def _select(values: Tensor, rows: Tensor) -> Tensor:
    return values.reshape(-1, values.shape[-1]).index_select(0, rows)
