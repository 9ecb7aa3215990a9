"""What catis must know of one modeling file of transformers, and how the blocks of its models are run.

Classes are known by name, so that none is imported for the asking.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial, reduce
from typing import Any

from torch import Tensor, nn
from transformers.modeling_outputs import BaseModelOutput
from transformers.utils import ModelOutput

from catis.core.block import Recorder, run_blocks
from catis.core.execute import in_grid_order, unmerge
from catis.core.parts import BlockParts
from catis.core.reduction import Reduction
from catis.core.state import TokenState
from catis.hosts.hf_parts import HfBlockParts
from catis.hosts.hooks import PLAIN, Convention, around_blocks, run_heard
from catis.hosts.listening import has_hooks, is_watched
from catis.native.accelerator import accelerator_for

EVERY = range(1 << 30)
"""All blocks, as an answer to which hidden states are wanted."""
_ENCODER = Convention(
    pack=lambda tokens: BaseModelOutput(last_hidden_state=tokens), unpack=lambda output: output.last_hidden_state
)


@dataclass(frozen=True)
class Family:
    """One modeling file of transformers."""

    title: str  # name for people
    module: str  # name of the file's module
    stem: str  # what its class names begin with
    blocks: str  # attribute path of the list of blocks
    parts: Callable[[Any], HfBlockParts]  # adapter of a block
    # Runs the model's embedding: a `hf_readout.Embed`, or one of `tower_readout` where `packed`.
    embed: Callable[..., Any]
    finish: Callable[..., ModelOutput]  # runs what comes after the blocks, likewise
    prefix: int = 1  # prefix tokens that every model of it has, CLS first; a model with none has no CLS either
    registers: bool = False  # whether as many more follow as its configuration says
    model: str = "Model"  # ending of the class whose forward runs the blocks
    block: str = "Layer"  # ending of the class of its blocks
    attention: str = "Attention"  # ending of the class that holds the projections; several with a bar between them
    packed: bool = False  # whether images of different sizes come in one call
    windowed: Callable[[Any], tuple[int, ...]] = lambda model: ()  # blocks that attend in windows
    taken: Callable[[Any], tuple[int, ...]] = lambda model: ()  # blocks whose tokens `finish` reads, beside the last
    # Whether the class returns maps of several blocks; then its own read-out makes them, not `finish`.
    backbone: bool = False
    block_returns: Convention = PLAIN  # how its blocks return their tokens, for hooks
    # What of a model cannot be reduced rightly, in words; None if nothing.
    refuses: Callable[[Any], str | None] = lambda model: None

    @property
    def has_cls(self) -> bool:
        """Whether token 0 is a CLS token."""
        return self.prefix > 0

    def num_prefix(self, model: Any) -> int:
        """Prefix tokens of a model."""
        return self.prefix + (int(model.config.num_register_tokens) if self.registers else 0)

    def known(self, ending: str) -> type[Any]:
        """A class of this family as transformers defines it."""
        return getattr(sys.modules[self.module], self.stem + ending)  # type: ignore[no-any-return]

    def blocks_of(self, model: nn.Module) -> nn.ModuleList:
        """The blocks of a model."""
        return reduce(getattr, self.blocks.split("."), model)  # type: ignore[return-value]

    def container_of(self, model: nn.Module) -> nn.Module | None:
        """The module between the model and its blocks, which the model calls; None where it calls the blocks."""
        outer, inner, _ = self.blocks.partition(".")
        return getattr(model, outer) if inner else None


def modeling(package: str) -> str:
    """Name of the module of a modeling file."""
    return f"transformers.models.{package}.modeling_{package}"


def run_family(
    model: Any,
    family: Family,
    reduction: Reduction,
    parts: Sequence[BlockParts],
    x: Tensor,
    positions: Tensor | None,
    record: Recorder | None,
    prefix_only: bool = False,
) -> tuple[Tensor, TokenState]:
    """(B, N, C) tokens of a batch through all blocks, with whoever listens to them."""
    blocks, prefix = family.blocks_of(model), family.num_prefix(model)
    start = partial(TokenState.start, prefix, x.shape[1] - prefix, x.shape[0], positions=positions, device=x.device)
    state = start(track=True, own_values=family.backbone)

    def run(x: Tensor) -> tuple[Tensor, TokenState]:
        return run_blocks(
            parts,
            x,
            state,
            reduction,
            has_cls=family.has_cls,
            checkpointing=model.training and any(block.gradient_checkpointing for block in blocks),
            accelerator=accelerator_for(x),
            record=record,
            around=around_blocks(blocks, family.block_returns),
            prefix_only=prefix_only,
        )

    return run_heard(family.container_of(model), run, x, _ENCODER)


def is_heard(model: Any, family: Family) -> bool:
    """Whether somebody listens where a last block for the prefix tokens alone would show."""
    around = (module for module in (model, family.container_of(model)) if module is not None)
    if any(has_hooks(module) for module in around):
        return True
    return is_watched(family.blocks_of(model)[-1]) or is_watched(model.layernorm)


def shown(reduction: Reduction, tokens: Tensor, state: TokenState) -> Tensor:
    """Tokens as the model hands them on: the full grid, or with `output="tokens"` those that are left, in its order.

    Over the full grid a mean is the size-weighted mean of the tokens. Reference forms whose authors do not weigh pools
    leave the sequence short, as the authors' code does.
    """
    if reduction.output == "tokens":
        return in_grid_order(tokens, state)
    return unmerge(tokens, state) if reduction.method.weighs_pool else tokens
