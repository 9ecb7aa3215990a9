"""What an adapter to a model library offers the rest of catis."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Protocol

from torch import Tensor, nn

from catis.core.block import Recorder
from catis.core.reduction import Reduction

__all__ = ["BlockCost", "Host", "ModelCost", "ModelFacts", "linear_shapes"]


@dataclass(frozen=True)
class ModelFacts:
    """What the core must know of a model.

    Attributes:
        depth: Number of blocks.
        num_prefix: Prefix tokens: CLS, distillation, registers.
        has_cls: Whether token 0 is a CLS token.
    """

    depth: int
    num_prefix: int
    has_cls: bool


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
    """

    width: int
    num_heads: int
    head_dim: int
    attention_layers: tuple[tuple[int, int], ...]
    mlp_layers: tuple[tuple[int, int], ...]

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


def linear_shapes(modules: Iterable[nn.Module]) -> tuple[tuple[int, int], ...]:
    """(inputs, outputs) of the linear layers among some modules, in order."""
    return tuple((one.in_features, one.out_features) for one in modules if isinstance(one, nn.Linear))


class Host(Protocol):
    """One model library. Hosts keep no state: settings live on the model, forward state in the call."""

    supported: str

    def recognises(self, module: nn.Module) -> bool:
        """Whether this module is a Vision Transformer of this library, plain or reduced."""

    def facts(self, model: nn.Module) -> ModelFacts:
        """Depth and prefix; raises UnsupportedModelError where a part is not as we know it."""

    def reduction(self, model: nn.Module) -> Reduction | None:
        """The settings on the model, None if it is plain."""

    def cost(self, model: nn.Module, input_size: tuple[int, ...] | None) -> ModelCost:
        """Sizes for counting multiply-adds; reads shapes only, so a model on the meta device will do."""

    def install(self, model: nn.Module, settings: Reduction) -> None:
        """Put settings on a model that `facts` accepted, replacing any that are there."""

    def uninstall(self, model: nn.Module) -> None:
        """Make a reduced model the plain one again; a plain one is left alone."""

    def watch(self, model: nn.Module, inputs: Tensor, record: Recorder) -> Any:
        """Forward pass of a reduced model with a recorder on every block; returns what the model returns."""
