"""Runs blocks with reduction between attention and MLP, for any host and any method."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from catis.core.execute import execute
from catis.core.method import Reduction
from catis.core.parts import BlockParts, Projection
from catis.core.plan import Plan
from catis.core.state import TokenState
from catis.core.view import BlockView
from catis.native.library import kernels_for

__all__ = ["BlockRecord", "Recorder", "run_block", "run_blocks"]


@dataclass(frozen=True)
class BlockRecord:
    """What one block did, for whoever asked to watch.

    Attributes:
        layer: Index of the block.
        view: What the method saw; None in reference modes that reduce elsewhere.
        plan: What it decided; None in a block that removed nothing.
        tokens: (B, N, C) output of the block.
        state: Companions of these tokens.
    """

    layer: int
    view: BlockView | None
    plan: Plan | None
    tokens: Tensor
    state: TokenState


Recorder = Callable[[BlockRecord], None]
Decision = TypeVar("Decision")


def run_blocks(
    blocks: Sequence[BlockParts],
    x: Tensor,
    state: TokenState,
    settings: Reduction,
    *,
    has_cls: bool,
    checkpointing: bool = False,
    record: Recorder | None = None,
) -> tuple[Tensor, TokenState]:
    """Run all blocks on (B, N, C) tokens. State goes in and comes out: nothing is stored on a module."""
    state = replace(state, kernels=kernels_for(x))
    for layer, parts in enumerate(blocks):
        if checkpointing and torch.is_grad_enabled() and record is None:
            x, state = checkpoint(run_block, parts, x, state, settings, layer, has_cls, None, use_reentrant=False)
        else:
            x, state = run_block(parts, x, state, settings, layer, has_cls, record)
    return x, state


def run_block(
    parts: BlockParts,
    x: Tensor,
    state: TokenState,
    settings: Reduction,
    layer: int,
    has_cls: bool,
    record: Recorder | None = None,
) -> tuple[Tensor, TokenState]:
    """Run one block: attention on the tokens that enter, reduction, MLP on those that stay."""
    own_way = settings.method.run_block(parts, x, state, layer, settings)
    view = None
    if own_way is not None:
        x, state, plan = own_way
    else:
        x, state, view, plan = _attend_and_reduce(parts, x, state, settings, layer, has_cls, record is not None)
        x = parts.add_mlp(x)
    if record is not None:
        record(BlockRecord(layer, view, plan, x, state))
    return x, state


def _attend_and_reduce(
    parts: BlockParts, x: Tensor, state: TokenState, settings: Reduction, layer: int, has_cls: bool, explain: bool
) -> tuple[Tensor, TokenState, BlockView | None, Plan | None]:
    """First half of a block, and the reduction after it.

    The view is returned to a watcher only: what it holds (features, queries, keys) must be free again when the MLP
    asks for memory, as it is in the plain model.
    """
    r = settings.amount(layer, x.shape[1] - state.num_prefix, state.num_prefix)
    bias = state.attention_bias(x.dtype) if settings.prop_attn and settings.method.proportional else None
    features = parts.norm(x)
    projection = parts.project(features, state.positions)
    residual = parts.add_attention(x, parts.output(parts.mix(projection, _cast(bias, projection)), features))
    view = _view(settings, layer, r, has_cls, features, residual, projection, bias, state, explain)
    plan = None
    if r:
        plan = _decide(settings.method.plan, view)
        residual, state = execute(plan, residual, state)
    else:
        state = replace(state, cls_attention=_decide(settings.method.observe, view))
    return residual, state, view if explain else None, plan if explain else None


def _decide(look: Callable[[BlockView], Decision], view: BlockView) -> Decision:
    """No gradient goes through a decision, only through the merge."""
    if not torch.is_grad_enabled():  # `no_grad` costs as much as a small operation
        return look(view)
    with torch.no_grad():
        return look(view)


def _cast(bias: Tensor | None, projection: Projection) -> Tensor | None:
    # Under autocast the residual is float32 while queries are bfloat16; the kernel wants one dtype.
    return None if bias is None else bias.to(projection.query.dtype)


def _view(
    settings: Reduction,
    layer: int,
    r: int,
    has_cls: bool,
    features: Tensor,
    residual: Tensor,
    projection: Projection,
    bias: Tensor | None,
    state: TokenState,
    explain: bool,
) -> BlockView:
    return BlockView(
        layer=layer,
        depth=settings.schedule.depth,
        r=r,
        num_prefix=state.num_prefix,
        has_cls=has_cls,
        features=features,
        residual=residual,
        query=projection.query,
        key=projection.key,
        content_key=projection.content_key,
        scale=projection.scale,
        bias=bias,
        size=state.size,
        previous_cls=state.cls_attention,
        explain=explain,
        kernels=state.kernels if projection.key.dtype == torch.float32 else None,
    )
