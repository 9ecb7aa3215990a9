"""Tensors as C sees them: addresses, and memory that lies as it is expected to."""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["floats", "in_rows", "new_floats", "new_indices", "pointer"]


def new_indices(batch: int, patches: int, r: int) -> tuple[Tensor, Tensor, Tensor]:
    """Room for keep (B, N_p - r), removed (B, r) and target (B, r)."""
    return (
        torch.empty((batch, patches - r), dtype=torch.int64),
        torch.empty((batch, r), dtype=torch.int64),
        torch.empty((batch, r), dtype=torch.int64),
    )


def new_floats(batch: int, count: int) -> Tensor:
    """Room for (B, count) numbers."""
    return torch.empty((batch, count), dtype=torch.float32)


def pointer(tensor: Tensor | None) -> int | None:
    """Where a tensor's memory begins; it must live on in a variable until the call is over."""
    return None if tensor is None else tensor.data_ptr()


def in_rows(heads: Tensor) -> Tensor:
    """(B, H, N, d) with each token's numbers one after the other, as every model that we know has them."""
    return heads if heads.stride()[3] == 1 else heads.contiguous()


def floats(tensor: Tensor | None) -> Tensor | None:
    """Contiguous float32, whatever a method may have put there."""
    if tensor is None:
        return None
    return (tensor if tensor.dtype == torch.float32 else tensor.float()).contiguous()
