"""Weights inside a group: the size of each token, or size times the attention that the CLS token pays it."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal, get_args

import torch
from torch import Tensor

from catis.core.method import BlockShape
from catis.core.plan import Plan
from catis.core.view import BlockView

Pooling = Literal["size", "attention"]


def check_pooling(pooling: str) -> None:
    """Refuse any other word."""
    if pooling not in get_args(Pooling):
        raise ValueError(f"pooling={pooling!r}: expected one of {list(get_args(Pooling))}")


def pooled(plan: Plan, view: BlockView, pooling: Pooling) -> Plan:
    """The plan, with its groups averaged by size or by attention."""
    return plan if pooling == "size" else replace(plan, blend="weight", weight=attention_weight(view))


def attention_weight(view: BlockView) -> Tensor:
    """(B, N_p) A_cls times size; a group that the CLS token does not look at is averaged evenly."""
    attention = view.cls_attention()
    assert attention is not None, "a handle refuses this pooling for a model without a CLS token"
    weight = attention if view.size is None else attention * view.size
    return weight.clamp_min(torch.finfo(weight.dtype).tiny)


def attention_macs(shape: BlockShape) -> int:
    """What the CLS token's row costs: one product of all keys with a block-diagonal matrix of its queries."""
    return (shape.num_patches + shape.num_prefix) * shape.num_heads**2 * shape.head_dim
