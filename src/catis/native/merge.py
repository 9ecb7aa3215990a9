"""Merging as one compiled call: the executor on float32 CPU tensors."""

from __future__ import annotations

import torch
from torch import Tensor

from catis.native.library import Kernels
from catis.native.memory import floats, new_floats, pointer

__all__ = ["BLENDS", "merge"]

BLENDS = {"size": 0, "mean": 1, "weight": 2, "mlerp": 3}
"""Blends that the compiled `merge` knows; the numbers are those of kernels.h."""


def merge(
    kernels: Kernels,
    indices: tuple[Tensor, Tensor, Tensor | None],
    blend: str,
    x: Tensor,
    num_prefix: int,
    size: Tensor | None,
    weight: Tensor | None,
    attention: Tensor | None,
) -> tuple[Tensor, Tensor | None, Tensor | None, Tensor | None]:
    """Apply `keep`, `removed`, `target` to (B, N, C) tokens; their sizes and A_cls are (B, N_p) or None.

    Returns:
        (B, P + K, C) tokens, (B, K) sizes and (B, 1, 1, P + K) their logarithms (None while all are 1), (B, K) A_cls.
    """
    # kept in variables: memory whose address was taken must not be let go before the call
    keep, removed, target = indices[0].contiguous(), indices[1].contiguous(), indices[2]
    target = None if target is None else target.contiguous()
    x, size, weight, attention = x.contiguous(), floats(size), floats(weight), floats(attention)
    (batch, kept), channels = keep.shape, x.shape[2]
    _check(x, num_prefix, keep, removed, target, (size, weight, attention))
    merged = torch.empty((batch, num_prefix + kept, channels), dtype=torch.float32)
    next_size = log_size = None
    if size is not None or target is not None:
        next_size = new_floats(batch, kept)
        log_size = torch.empty((batch, 1, 1, num_prefix + kept), dtype=torch.float32)
    next_attention = None if attention is None else new_floats(batch, kept)
    kernels.module.merge(
        batch,
        num_prefix,
        kept,
        removed.shape[1],
        channels,
        BLENDS[blend],
        keep.data_ptr(),
        removed.data_ptr(),
        pointer(target),
        x.data_ptr(),
        pointer(size),
        pointer(weight),
        pointer(attention),
        merged.data_ptr(),
        pointer(next_size),
        pointer(log_size),
        pointer(next_attention),
        kernels.threads(),
    )
    return merged, next_size, log_size, next_attention


def _check(
    x: Tensor,
    num_prefix: int,
    keep: Tensor,
    removed: Tensor,
    target: Tensor | None,
    values: tuple[Tensor | None, ...],
) -> None:
    """A plan of the wrong size would be read beyond its memory; C looks at the indices themselves."""
    batch, patches = x.shape[0], x.shape[1] - num_prefix
    fits = keep.dtype == removed.dtype == torch.int64 and keep.shape == (batch, patches - removed.shape[1])
    fits = fits and (target is None or (target.dtype == torch.int64 and target.shape == removed.shape))
    for one in values:
        fits = fits and (one is None or one.shape == (batch, patches))
    if not fits:
        raise IndexError(
            f"the plan does not fit {batch} x {patches} patch tokens: keep is {tuple(keep.shape)} {keep.dtype}, "
            f"removed {tuple(removed.shape)} {removed.dtype}; together they must hold every index once, as int64, and "
            "weights and A_cls must have one number per patch token"
        )
