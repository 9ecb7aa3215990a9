"""Multiply-adds of a model under any reduction, from shapes alone (the paper calls them GFLOPs)."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate
from typing import Any

from torch import nn

from catis import hosts
from catis.api import wanted_reduction
from catis.core.method import BlockShape, Method
from catis.core.reduction import Reduction
from catis.core.schedule import RLike, Schedule
from catis.hosts import ModelFacts
from catis.hosts.cost import ModelCost


def gmacs(
    model: nn.Module,
    method: str | Method | Reduction | None = None,
    *,
    r: RLike | None = None,
    schedule: str | Schedule | None = None,
    budget: float | None = None,
    input_size: tuple[int, ...] | None = None,
    overhead: bool = False,
    **options: Any,
) -> float:
    """Giga multiply-adds for one image: attention on the tokens that enter a block, MLP on those that leave.

    With no amount, the model is counted as it is, reduced or not. Nothing is run and no weights are
    needed: a model on the meta device will do. LayerNorm, softmax and activations are not counted.

    Args:
        model: A supported model.
        method: As in `catis.apply`. All methods cost the same at the same r, unless a reference mode has amounts
            of its own.
        r: Tokens to remove per block, in any spelling that `catis.apply` takes.
        schedule: As in `catis.apply`.
        budget: As in `catis.apply`.
        input_size: (H, W) of the image; the model's own by default.
        overhead: Add what scoring and matching the tokens costs itself.
        options: Options of the method.

    Example:
        >>> import catis, timm, torch
        >>> with torch.device("meta"):
        ...     model = timm.create_model("vit_small_patch16_224")
        >>> round(catis.gmacs(model), 2), round(catis.gmacs(model, r=13), 2)
        (4.6, 2.7)
    """
    handle = hosts.find(model)
    reduction = handle.reduction
    if any(given is not None for given in (method, r, schedule, budget)) or options:
        reduction = handle.bind(wanted_reduction(method, r=r, schedule=schedule, budget=budget, **options))
    cost = handle.cost(input_size) if input_size or reduction is None else handle.cost_under(reduction)
    return count_macs(cost, handle.facts, reduction, overhead) / 1e9


@dataclass(frozen=True)
class MacsComparison:
    """A model before and after reduction, per image."""

    vanilla: float  # GMACs of the vanilla model
    reduced: float  # GMACs of the reduced one
    overhead: float  # GMACs of matching and merging, which `reduced` leaves out
    patches: int  # patch tokens at the start
    prefix: int  # prefix tokens
    tokens: tuple[int, ...]  # patch tokens after each block


def compare_macs(model: nn.Module, reduction: Reduction) -> MacsComparison:
    """What a reduction would save; the model is not touched.

    Args:
        model: A supported model, also on the meta device.
        reduction: What to put on it.

    Example:
        >>> import timm
        >>> compare_macs(timm.create_model("vit_tiny_patch16_224"), Reduction.of("tome", r=16)).tokens[-3:]
        (36, 20, 10)
    """
    handle = hosts.find(model)
    facts, bound = handle.facts, handle.bind(reduction)
    cost = handle.cost_under(bound)
    vanilla = count_macs(handle.cost(), facts, None) / 1e9
    reduced, full = (count_macs(cost, facts, bound, overhead) / 1e9 for overhead in (False, True))
    tokens = tuple(bound.token_counts(facts.depth, cost.num_patches, facts.num_prefix))
    return MacsComparison(vanilla, reduced, full - reduced, cost.num_patches, facts.num_prefix, tokens)


def count_macs(cost: ModelCost, facts: ModelFacts, reduction: Reduction | None, overhead: bool = False) -> int:
    """Multiply-adds of one forward pass of one image."""
    patches, prefix, depth = cost.num_patches, facts.num_prefix, len(cost.blocks)
    if reduction is None:
        return cost.macs(prefix)
    amounts = reduction.amounts(depth, patches, prefix)
    total = cost.macs(prefix, [patches - gone for gone in accumulate(amounts)], bool(reduction.head_only))
    for index, (block, r) in enumerate(zip(cost.blocks, amounts, strict=True)):
        sizes = (block.width, block.num_heads, block.head_dim)
        shape = BlockShape(index, depth, patches, prefix, facts.has_cls, r, *sizes)
        total += reduction.method.macs(shape) if overhead and r else 0
        patches -= r
    return total
