"""Tensors as C reads them; where a tensor already lies so, nothing is copied."""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["CPU", "in_rows", "new_floats"]

CPU = torch.device("cpu")
"""Said to every function that makes a tensor: the default device may be another one."""


def new_floats(shape: tuple[int, ...]) -> Tensor:
    """Room for float32 numbers."""
    return torch.empty(shape, dtype=torch.float32, device=CPU)


def in_rows(heads: Tensor) -> Tensor:
    """(B, H, N, d) with each token's numbers one after the other, as every model that we know has them."""
    return heads if heads.stride()[3] == 1 else heads.contiguous()
