"""What a host says of a model before anything is run: depth and prefix, linear layers, and the sizes that cost."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from torch import nn

from catis.core.budget import fit_shape
from catis.core.reduction import Reduction
from catis.core.schedule import Schedule


class ModelFacts(NamedTuple):
    """What the core must know of a model."""

    depth: int  # number of blocks
    num_prefix: int  # prefix tokens: CLS, distillation, registers
    has_cls: bool  # whether token 0 is a CLS token
    windowed: tuple[int, ...] = ()  # blocks that attend in windows, which remove nothing

    def bound(self, reduction: Reduction) -> Reduction:
        """A reduction, checked against such a model and fitted to it."""
        return reduction.bound(self.depth, self.num_prefix, self.windowed)


class BlockLinears(NamedTuple):
    """The linear layers of one block."""

    attention: tuple[nn.Linear, ...]  # those that run on the tokens that enter: query, key, value, gate, output
    mlp: tuple[nn.Linear, ...]  # those that run on the tokens that leave the reduction


@dataclass(frozen=True)
class BlockCost:
    """Sizes that decide what a block costs."""

    width: int  # width C of the residual stream
    num_heads: int  # attention heads
    head_dim: int  # width d of a head
    # (inputs, outputs) of the linear layers that run on the tokens that enter (q, k, v, gate, output).
    attention_layers: tuple[tuple[int, int], ...]
    mlp_layers: tuple[tuple[int, int], ...]  # those of the layers that run on the tokens that leave the reduction
    window: int | None = None  # tokens of a window, where attention is in windows; None where every token sees all
    # Weights that make keys and values; a last block for the prefix tokens alone runs these on all tokens.
    key_value_weights: int = 0

    @property
    def attention_weights(self) -> int:
        """Weights that run on every token that enters."""
        return sum(inputs * outputs for inputs, outputs in self.attention_layers)

    @property
    def mlp_weights(self) -> int:
        """Weights that run on every token that leaves."""
        return sum(inputs * outputs for inputs, outputs in self.mlp_layers)

    def macs(self, start: int, entering: int, leaving: int) -> int:
        """Attention on the tokens that enter, MLP on those that leave; `start` patches entered the first block."""
        # Windows keep their places, also empty ones.
        pairs = entering**2 if self.window is None else start * self.window
        products = 2 * pairs * self.num_heads * self.head_dim  # query . key and weights . value
        return entering * self.attention_weights + products + leaving * self.mlp_weights

    def macs_of_prefix(self, entering: int, prefix: int) -> int:
        """Keys and values of all tokens; queries, output projection and MLP of the prefix tokens alone."""
        products = 2 * prefix * entering * self.num_heads * self.head_dim
        alone = self.attention_weights - self.key_value_weights + self.mlp_weights
        return entering * self.key_value_weights + products + prefix * alone


@dataclass(frozen=True)
class ModelCost:
    """Sizes that decide what a model costs on one input."""

    num_patches: int  # patch tokens at the start
    blocks: tuple[BlockCost, ...]  # one entry per block
    embed_weights: int  # weights of the patch embedding, which run once per patch
    head_weights: int  # weights that run once (classifier, latent query of an attention pool)
    pool_weights: int = 0  # weights that run on every token at the end (keys and values of an attention pool)
    pool_width: int = 0  # width of an attention pool's products times its queries; 0 without one
    pool_prefix: bool = False  # whether the pool reads prefix tokens too

    def macs(self, num_prefix: int, kept: Sequence[int] | None = None, head_only: bool = False) -> int:
        """Multiply-adds of one forward pass.

        Args:
            num_prefix: Prefix tokens.
            kept: Patch tokens that leave each block; all of them by default.
            head_only: Whether the last block computes the prefix tokens alone.
        """
        entering, total = self.num_patches, self.embed_weights * self.num_patches + self.head_weights
        for index, (block, leaving) in enumerate(zip(self.blocks, kept or [entering] * len(self.blocks), strict=True)):
            if head_only and index == len(self.blocks) - 1:
                return total + block.macs_of_prefix(entering + num_prefix, num_prefix)
            total += block.macs(self.num_patches, entering + num_prefix, leaving + num_prefix)
            entering = leaving
        read = entering + (num_prefix if self.pool_prefix else 0)
        return total + read * (self.pool_weights + 2 * self.pool_width)


def linears_in(modules: Iterable[nn.Module]) -> tuple[nn.Linear, ...]:
    """The linear layers among some modules, in order."""
    return tuple(module for module in modules if isinstance(module, nn.Linear))


def linear_shapes(linears: Iterable[nn.Linear]) -> tuple[tuple[int, int], ...]:
    """(inputs, outputs) of some linear layers, in order."""
    return tuple((linear.in_features, linear.out_features) for linear in linears)


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
