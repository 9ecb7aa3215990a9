"""Multiply-adds of a model under any reduction, from shapes alone (the paper calls them GFLOPs)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from torch import nn

from catis import hosts
from catis.api import wanted_reduction
from catis.core.method import BlockShape, Method
from catis.core.reduction import Reduction
from catis.core.schedule import RLike, Schedule
from catis.hosts import Handle, ModelFacts
from catis.hosts.cost import BlockCost, ModelCost

__all__ = ["MacsComparison", "compare_macs", "cost_under", "count_macs", "gmacs"]


def gmacs(
    model: nn.Module,
    method: str | Method | Reduction | None = None,
    *,
    r: RLike | None = None,
    schedule: str | Schedule | None = None,
    input_size: tuple[int, ...] | None = None,
    overhead: bool = False,
    **options: Any,
) -> float:
    """Giga multiply-adds for one image: attention on the tokens that enter a block, MLP on those that leave.

    With neither r nor schedule, the model is counted as it is, reduced or not. Nothing is run and no weights are
    needed: a model on the meta device will do. LayerNorm, softmax and activations are not counted.

    Args:
        model: A supported model.
        method: As in `catis.apply`. The five methods cost the same at the same r, unless a reference mode has amounts
            of its own.
        r: Tokens to remove per block, in any spelling that `catis.apply` takes.
        schedule: As in `catis.apply`.
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
    if r is not None or schedule is not None or options or method is not None:
        reduction = handle.bind(wanted_reduction(method, r=r, schedule=schedule, **options))
    cost = handle.cost(input_size) if input_size or reduction is None else cost_under(handle, reduction)
    return count_macs(cost, handle.facts, reduction, overhead) / 1e9


def cost_under(handle: Handle, reduction: Reduction) -> ModelCost:
    """Sizes of a model whose images are as large as a reduction makes them."""
    side = reduction.input_size
    return handle.cost(None if side is None else (side, side))


@dataclass(frozen=True)
class MacsComparison:
    """A model before and after reduction, per image.

    Attributes:
        vanilla: GMACs of the vanilla model.
        reduced: GMACs of the reduced one.
        overhead: GMACs of matching and merging, which `reduced` leaves out.
        patches: Patch tokens at the start.
        prefix: Prefix tokens.
        tokens: Patch tokens after each block.
    """

    vanilla: float
    reduced: float
    overhead: float
    patches: int
    prefix: int
    tokens: tuple[int, ...]


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
    cost = cost_under(handle, bound)
    vanilla = count_macs(handle.cost(), facts, None) / 1e9
    reduced, full = (count_macs(cost, facts, bound, overhead) / 1e9 for overhead in (False, True))
    tokens = tuple(bound.token_counts(facts.depth, cost.num_patches, facts.num_prefix))
    return MacsComparison(vanilla, reduced, full - reduced, cost.num_patches, facts.num_prefix, tokens)


def count_macs(cost: ModelCost, facts: ModelFacts, reduction: Reduction | None, overhead: bool = False) -> int:
    """Multiply-adds of one forward pass of one image."""
    patches, prefix = cost.num_patches, facts.num_prefix
    total = cost.embed_weights * patches + cost.head_weights
    depth = len(cost.blocks)
    amounts = [0] * depth if reduction is None else reduction.amounts(depth, patches, prefix)
    for index, (block, r) in enumerate(zip(cost.blocks, amounts, strict=True)):
        if reduction is not None and reduction.head_only and index == depth - 1:
            return total + _prefix_macs(block, patches + prefix, prefix)
        total += _block_macs(block, cost.num_patches, patches + prefix, patches - r + prefix)
        if overhead and r and reduction is not None:
            total += reduction.method.macs(_shape(block, facts, index, patches, r))
        patches -= r
    read = patches + (prefix if cost.pool_prefix else 0)
    return total + read * (cost.pool_weights + 2 * cost.pool_width)


def _block_macs(block: BlockCost, start: int, entering: int, leaving: int) -> int:
    pairs = entering**2 if block.window is None else start * block.window  # windows keep their places, also empty ones
    products = 2 * pairs * block.num_heads * block.head_dim  # query . key and weights . value
    return entering * block.attention_weights + products + leaving * block.mlp_weights


def _prefix_macs(block: BlockCost, entering: int, prefix: int) -> int:
    """Keys and values of all tokens; queries, output projection and MLP of the prefix tokens alone."""
    products = 2 * prefix * entering * block.num_heads * block.head_dim
    alone = block.attention_weights - block.key_value_weights + block.mlp_weights
    return entering * block.key_value_weights + products + prefix * alone


def _shape(block: BlockCost, facts: ModelFacts, index: int, patches: int, r: int) -> BlockShape:
    return BlockShape(
        block=index,
        depth=facts.depth,
        num_patches=patches,
        num_prefix=facts.num_prefix,
        has_cls=facts.has_cls,
        r=r,
        width=block.width,
        num_heads=block.num_heads,
        head_dim=block.head_dim,
    )
