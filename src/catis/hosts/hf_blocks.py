"""Runs the blocks of one batch of a transformers model, whichever family it is of."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from torch import Tensor
from transformers.modeling_outputs import BaseModelOutput

from catis.core.block import Recorder, run_blocks
from catis.core.execute import in_grid_order, unmerge
from catis.core.parts import BlockParts
from catis.core.reduction import Reduction
from catis.core.state import TokenState
from catis.hosts.hf_family import Family
from catis.hosts.hooks import Convention, around_blocks, run_heard
from catis.hosts.listening import has_hooks, is_watched
from catis.native.accelerator import accelerator_for

EVERY = range(1 << 30)
"""All blocks, as an answer to which hidden states are wanted."""
_ENCODER = Convention(
    pack=lambda tokens: BaseModelOutput(last_hidden_state=tokens), unpack=lambda output: output.last_hidden_state
)


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
