"""From a share of a model's multiply-adds to the tokens that each of its blocks keeps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from catis.core.budget import fit_shape
from catis.core.reduction import Reduction
from catis.core.schedule import Schedule
from catis.hosts.cost import ModelCost, ModelFacts


def fitted(reduction: Reduction, cost: ModelCost, facts: ModelFacts, vanilla: int) -> Reduction:
    """A reduction that has a budget, with the counts that meet it: at most that share, less by no whole token.

    `cost` is that of the images which the reduction leaves the model, `vanilla` the multiply-adds on its own images.
    """
    budget, head_only = reduction.budget, bool(reduction.head_only)
    assert budget is not None
    if reduction.method.own_amounts or reduction.method.block_runner is not None:
        raise ValueError(f"budget={budget:g}: this form of {reduction.method.name} has amounts of its own")
    open_blocks = [block for block in range(facts.depth) if block not in facts.windowed]

    def macs(kept: Sequence[int]) -> int:
        return cost.macs(facts.num_prefix, _in_all(kept, open_blocks, facts.depth, cost.num_patches), head_only)

    try:
        kept = fit_shape(macs, budget * vanilla, cost.num_patches, len(open_blocks), last=not head_only)
    except ValueError as error:
        raise ValueError(
            f"budget={budget:g}: nobody can reach it; with half of the tokens removed in every block the model still "
            f"costs {_least(macs, len(open_blocks), cost.num_patches, head_only) / vanilla:.3f} of vanilla"
        ) from error
    kept = _in_all(kept, open_blocks, facts.depth, cost.num_patches)
    return replace(reduction, schedule=Schedule.of_kept(kept, cost.num_patches, budget))


def _in_all(kept: Sequence[int], open_blocks: Sequence[int], depth: int, patches: int) -> list[int]:
    """Tokens that leave each block, of those that leave the blocks that may remove some."""
    if len(open_blocks) == depth:
        return list(kept)
    leaving, counts = dict(zip(open_blocks, kept, strict=True)), []
    for block in range(depth):
        patches = leaving.get(block, patches)
        counts.append(patches)
    return counts


def _least(macs: Callable[[Sequence[int]], int], blocks: int, patches: int, head_only: bool) -> int:
    """What is left when every block that may removes half."""
    kept = []
    for block in range(blocks):
        patches -= 0 if head_only and block == blocks - 1 else patches // 2
        kept.append(patches)
    return macs(kept)
