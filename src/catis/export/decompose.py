"""Operators that the ONNX exporter would spell out in many nodes, in the form that has the fewest."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.export import ExportedProgram


def in_few_nodes(program: ExportedProgram) -> ExportedProgram:
    """The same program with attention written out, lists of slices as single picks, and resizing as two products."""
    aten = torch.ops.aten
    table: dict[Any, Any] = {
        aten.scaled_dot_product_attention.default: _attention,
        aten.unbind.int: _unbind,
        aten._upsample_bicubic2d_aa.vec: _resize,
        aten._upsample_bicubic2d_aa.default: _resize,
    }
    decomposed: ExportedProgram = program.run_decompositions(table)
    return decomposed


def _attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Any:
    """Attention of (B, H, N, d) as two products and a softmax; a kind that no Vision Transformer has is left alone."""
    if is_causal or enable_gqa or (attn_mask is not None and attn_mask.dtype == torch.bool):
        return NotImplemented
    logits = (query @ key.transpose(-2, -1)) * (query.shape[-1] ** -0.5 if scale is None else scale)
    return (logits if attn_mask is None else logits + attn_mask).softmax(-1) @ value


def _unbind(values: Tensor, dim: int = 0) -> list[Tensor]:
    """One pick for each part, in place of a slice and a squeeze."""
    return [values.select(dim, index) for index in range(values.shape[dim])]


def _resize(images: Tensor, size: Sequence[int], align_corners: bool, *scales: Any) -> Any:
    """Bicubic with smoothing, of (B, C, H, W), as two products: runtimes differ in how they read ONNX's Resize.

    The stored matrices are first factors, so that int8 leaves them alone (float_parts.py).
    """
    if align_corners or size is None:
        return NotImplemented
    rows, columns = (_cubic_shares(before, after, images) for before, after in zip(images.shape[2:], size, strict=True))
    return rows @ (columns @ images.transpose(2, 3)).transpose(2, 3)


def _cubic_shares(before: int, after: int, like: Tensor) -> Tensor:
    """(after, before) share of each pixel in each new one: Keys' cubic with a = -1/2, stretched where it shrinks."""
    scale = before / after
    old = torch.arange(before, dtype=torch.float32, device=like.device) + 0.5
    new = (torch.arange(after, dtype=torch.float32, device=like.device) + 0.5) * scale
    x = (old - new[:, None]).abs() / max(scale, 1.0)
    near, far = (1.5 * x - 2.5) * x * x + 1, ((-0.5 * x + 2.5) * x - 4) * x + 2
    weight = torch.where(x < 1, near, torch.where(x < 2, far, 0.0))
    return (weight / weight.sum(1, keepdim=True)).to(like.dtype)
