"""Operators that the ONNX exporter would spell out in many nodes, in the form that has the fewest."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.export import ExportedProgram

__all__ = ["in_few_nodes"]


def in_few_nodes(program: ExportedProgram) -> ExportedProgram:
    """The same program with attention written out and lists of slices as single picks."""
    aten = torch.ops.aten
    table: dict[Any, Any] = {aten.scaled_dot_product_attention.default: _attention, aten.unbind.int: _unbind}
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
    logits = (query * (query.shape[-1] ** -0.5 if scale is None else scale)) @ key.transpose(-2, -1)
    return (logits if attn_mask is None else logits + attn_mask).softmax(-1) @ value


def _unbind(values: Tensor, dim: int = 0) -> list[Tensor]:
    """One pick for each part, in place of a slice and a squeeze."""
    return [values.select(dim, index) for index in range(values.shape[dim])]
