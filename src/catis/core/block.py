"""Runs blocks with reduction between attention and MLP, for any host and any method."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, TypeVar

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from catis.core.execute import execute
from catis.core.parts import BlockParts, Projection
from catis.core.plan import Plan
from catis.core.reduction import Reduction
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


class Course(NamedTuple):
    """What is the same for all blocks of one forward call; asked for once, since each question costs a microsecond.

    Attributes:
        settings: What `apply` put on the model.
        amounts: Patch tokens that each block removes.
        proportional: Whether attention counts sizes.
        has_cls: Whether token 0 is a CLS token.
        record: Whoever asked to watch.
    """

    settings: Reduction
    amounts: Sequence[int]
    proportional: bool
    has_cls: bool
    record: Recorder | None


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
    amounts = settings.amounts(len(blocks), x.shape[1] - state.num_prefix, state.num_prefix)
    course = Course(settings, amounts, settings.prop_attn and settings.method.proportional, has_cls, record)
    state = replace(state, kernels=kernels_for(x))
    for layer, parts in enumerate(blocks):
        if checkpointing and torch.is_grad_enabled() and record is None:
            x, state = checkpoint(run_block, parts, x, state, course, layer, use_reentrant=False)
        else:
            x, state = run_block(parts, x, state, course, layer)
    return x, state


def run_block(parts: BlockParts, x: Tensor, state: TokenState, course: Course, layer: int) -> tuple[Tensor, TokenState]:
    """Run one block: attention on the tokens that enter, reduction, MLP on those that stay."""
    own_way = course.settings.method.run_block(parts, x, state, layer, course.settings)
    view = None
    if own_way is not None:
        x, state, plan = own_way
    else:
        x, state, view, plan = _attend_and_reduce(parts, x, state, course, layer)
        x = parts.add_mlp(x)
    if course.record is not None:
        course.record(BlockRecord(layer, view, plan, x, state))
    return x, state


def _attend_and_reduce(
    parts: BlockParts, x: Tensor, state: TokenState, course: Course, layer: int
) -> tuple[Tensor, TokenState, BlockView | None, Plan | None]:
    """First half of a block, and the reduction after it.

    The view is returned to a watcher only: what it holds (features, queries, keys) must be free again when the MLP
    asks for memory, as it is in the plain model.
    """
    bias = state.attention_bias(x.dtype) if course.proportional else None
    features = parts.norm(x)
    projection = parts.project(features, state.positions)
    residual = parts.add_attention(x, parts.output(parts.mix(projection, _cast(bias, projection)), features))
    view = _view(course, layer, features, residual, projection, bias, state)
    method, plan = course.settings.method, None
    if view.r:
        plan = _decide(method.plan, view)
        residual, state = execute(plan, residual, state)
    else:
        state = replace(state, cls_attention=_decide(method.observe, view))
    return residual, state, view if view.explain else None, plan if view.explain else None


def _decide(look: Callable[[BlockView], Decision], view: BlockView) -> Decision:
    """No gradient goes through a decision, only through the merge."""
    if not torch.is_grad_enabled():  # `no_grad` costs as much as a small operation
        return look(view)
    with torch.no_grad():
        return look(view)


def _cast(bias: Tensor | None, projection: Projection) -> Tensor | None:
    # Under autocast the residual is float32 while queries are bfloat16; the kernel wants one dtype.
    if bias is None or bias.dtype == projection.query.dtype:
        return bias
    return bias.to(projection.query.dtype)


def _view(
    course: Course,
    layer: int,
    features: Tensor,
    residual: Tensor,
    projection: Projection,
    bias: Tensor | None,
    state: TokenState,
) -> BlockView:
    query, key, _, content_key, scale = projection
    return BlockView(
        layer=layer,
        depth=len(course.amounts),
        r=course.amounts[layer],
        num_prefix=state.num_prefix,
        has_cls=course.has_cls,
        features=features,
        residual=residual,
        query=query,
        key=key,
        content_key=content_key,
        scale=scale,
        bias=bias,
        size=state.size,
        previous_cls=state.cls_attention,
        explain=course.record is not None,
        kernels=state.kernels if key.dtype == torch.float32 else None,
    )
