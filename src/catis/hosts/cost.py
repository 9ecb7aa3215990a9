"""Sizes that decide what a model costs on one input, read from the shapes of its weights by each host."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from torch import nn

__all__ = ["BlockCost", "ModelCost", "linear_shapes", "linears_in"]


@dataclass(frozen=True)
class BlockCost:
    """Sizes that decide what a block costs.

    Attributes:
        width: Width C of the residual stream.
        num_heads: Attention heads.
        head_dim: Width d of a head.
        attention_layers: (inputs, outputs) of the linear layers that run on the tokens that enter (q, k, v, gate,
            output).
        mlp_layers: Those of the layers that run on the tokens that leave the reduction.
        window: Tokens of a window, where attention is in windows; None where every token sees all.
        key_value_weights: Weights that make keys and values; a last block for the prefix tokens alone runs these on
            all tokens.
    """

    width: int
    num_heads: int
    head_dim: int
    attention_layers: tuple[tuple[int, int], ...]
    mlp_layers: tuple[tuple[int, int], ...]
    window: int | None = None
    key_value_weights: int = 0

    @property
    def attention_weights(self) -> int:
        """Weights that run on every token that enters."""
        return sum(inputs * outputs for inputs, outputs in self.attention_layers)

    @property
    def mlp_weights(self) -> int:
        """Weights that run on every token that leaves."""
        return sum(inputs * outputs for inputs, outputs in self.mlp_layers)


@dataclass(frozen=True)
class ModelCost:
    """Sizes that decide what a model costs on one input.

    Attributes:
        num_patches: Patch tokens at the start.
        blocks: One entry per block.
        embed_weights: Weights of the patch embedding, which run once per patch.
        head_weights: Weights that run once (classifier, latent query of an attention pool).
        pool_weights: Weights that run on every token at the end (keys and values of an attention pool).
        pool_width: Width of an attention pool's products times its queries; 0 without one.
        pool_prefix: Whether the pool reads prefix tokens too.
    """

    num_patches: int
    blocks: tuple[BlockCost, ...]
    embed_weights: int
    head_weights: int
    pool_weights: int = 0
    pool_width: int = 0
    pool_prefix: bool = False


def linears_in(modules: Iterable[nn.Module]) -> tuple[nn.Linear, ...]:
    """The linear layers among some modules, in order."""
    return tuple(module for module in modules if isinstance(module, nn.Linear))


def linear_shapes(linears: Iterable[nn.Linear]) -> tuple[tuple[int, int], ...]:
    """(inputs, outputs) of some linear layers, in order."""
    return tuple((linear.in_features, linear.out_features) for linear in linears)
