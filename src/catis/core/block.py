"""Runs blocks with reduction between attention and MLP, for any host and any method."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from catis.core.accelerator import Accelerator
from catis.core.execute import execute
from catis.core.method import Method
from catis.core.parts import BlockParts, Projection, replicated, whole
from catis.core.plan import Plan
from catis.core.state import TokenState
from catis.core.view import BlockView

if TYPE_CHECKING:
    from catis.core.reduction import Reduction


@dataclass(frozen=True)
class BlockRecord:
    """What one block did, for whoever asked to watch."""

    index: int
    view: BlockView | None  # what the method saw; None in forms that reduce elsewhere
    plan: Plan | None  # what it decided; None in a block that removed nothing
    tokens: Tensor  # (B, N, C) output of the block
    state: TokenState  # companions of these tokens


Recorder = Callable[[BlockRecord], None]
Decision = TypeVar("Decision")


class Course(NamedTuple):
    """What is the same for all blocks of one forward call; asked for once, since each question costs a microsecond."""

    reduction: Reduction  # what `apply` put on the model
    amounts: Sequence[int]  # patch tokens that each block removes
    proportional: bool  # whether attention counts sizes
    has_cls: bool  # whether token 0 is a CLS token
    accelerator: Accelerator | None  # decides and executes in place of PyTorch's operations, where it can
    record: Recorder | None  # whoever asked to watch


class BlockStep(NamedTuple):
    """Tokens and state after a block; the plan and what it was made from where somebody watches."""

    tokens: Tensor
    state: TokenState
    plan: Plan | None = None
    view: BlockView | None = None


BlockRunner = Callable[[BlockParts, Tensor, TokenState, Course, int], BlockStep]
"""Runs the block of this index: `run_block`, or another that a method brings."""


def run_blocks(
    blocks: Sequence[BlockParts],
    x: Tensor,
    state: TokenState,
    reduction: Reduction,
    *,
    has_cls: bool,
    checkpointing: bool = False,
    accelerator: Accelerator | None = None,
    record: Recorder | None = None,
    around: Callable[[BlockRunner], BlockRunner] | None = None,
    stop: int | None = None,
    prefix_only: bool = False,
) -> tuple[Tensor, TokenState]:
    """Run the blocks on (B, N, C) tokens. State goes in and comes out: nothing is stored on a module.

    Args:
        blocks: The blocks, taken apart.
        x: Tokens that enter the first.
        has_cls: Whether token 0 is a CLS token.
        checkpointing: Compute activations again in the backward pass.
        accelerator: Decides and executes in place of PyTorch's operations, where it can.
        record: Called with what each block did.
        around: Makes of the runner of a block one that also tells whoever listens to the block's module.
        stop: Run this many blocks only; all of them by default.
        prefix_only: Give the prefix tokens alone back, so that the last block need not compute the others.
    """
    method, prefix = reduction.method, state.num_prefix
    amounts = reduction.amounts(len(blocks), x.shape[1] - prefix, prefix)
    course = Course(reduction, amounts, reduction.prop_attn and method.proportional, has_cls, accelerator, record)
    run = method.block_runner or run_block
    run = run if around is None else around(run)
    for index, parts in enumerate(blocks[:stop]):
        if prefix_only and index == len(blocks) - 1:
            run = _run_block_for_prefix
        if checkpointing and torch.is_grad_enabled() and record is None:
            x, state, _, _ = checkpoint(run, parts, x, state, course, index, use_reentrant=False)
            continue
        x, state, plan, view = run(parts, x, state, course, index)
        if record is not None:
            record(BlockRecord(index, view, plan, x, state))
        del view  # what it holds (features, queries, keys) must be free when the next block asks for memory
    return x, state


def run_block(parts: BlockParts, x: Tensor, state: TokenState, course: Course, index: int) -> BlockStep:
    """Run one block: attention on the tokens that enter, reduction, MLP on those that stay."""
    x, state, plan, view = _attend_and_reduce(parts, x, state, course, index)
    return BlockStep(parts.add_mlp(x), state, plan, view)


def _run_block_for_prefix(parts: BlockParts, x: Tensor, state: TokenState, course: Course, index: int) -> BlockStep:
    """Run the last block where only its prefix tokens are read."""
    return BlockStep(parts.add_mlp(attend_for_prefix(parts, x, state, course, index)), TokenState(state.num_prefix))


def attend_for_prefix(parts: BlockParts, x: Tensor, state: TokenState, course: Course, index: int) -> Tensor:
    """(B, P, C) prefix tokens after attention: keys and values of all tokens, the rest for these alone."""
    prefix = state.num_prefix
    bias = _bias(x, state, course, index)
    features = parts.norm(x)
    projection = _softened(parts.project(features, state.positions, prefix), x, state, course, index)
    update = parts.output(parts.mix(projection, _cast(bias, projection)), features[:, :prefix])
    return parts.add_attention(x[:, :prefix], update)


def decide(method: Method, view: BlockView, accelerator: Accelerator | None = None) -> Plan:
    """What the method makes of a block. No gradient goes through a decision, only through the merge and its weights."""
    own = method.at(view.block)
    plan = None if accelerator is None else accelerator.decide(own, view)
    if plan is None:
        plan = _without_gradient(own.plan, view)
    if own is not method and plan.cls_attention is None:  # the next block's method may want it
        plan = replace(plan, cls_attention=_without_gradient(method.observe, view))
    if plan.blend == "weight" and view.residual.requires_grad:
        plan = replace(plan, weight=own.weight(view))
    return plan


def attend(parts: BlockParts, x: Tensor, state: TokenState, course: Course, index: int) -> BlockView:
    """First half of a block: what a method sees once attention has been added to the residual stream."""
    bias = _bias(x, state, course, index)
    features = parts.norm(x)
    projection = _softened(parts.project(features, state.positions), x, state, course, index)
    residual = parts.add_attention(x, parts.output(parts.mix(projection, _cast(bias, projection)), features))
    return BlockView(
        block=index,
        depth=len(course.amounts),
        r=course.amounts[index],
        num_prefix=state.num_prefix,
        has_cls=course.has_cls,
        features=features,
        residual=residual,
        query=whole(projection.query),
        key=whole(projection.key),
        content_key=whole(projection.content_key),
        scale=projection.scale,
        bias=bias,
        size=state.size,
        previous_cls=state.cls_attention,
        explain=course.record is not None,
    )


def reduce_tokens(view: BlockView, state: TokenState, course: Course) -> tuple[Tensor, TokenState, Plan | None]:
    """The reduction between attention and MLP: tokens that stay, their companions, and the plan, if anything went."""
    method = course.reduction.method
    if not view.r:
        return view.residual, replace(state, cls_attention=_without_gradient(method.observe, view)), None
    plan = decide(method, view, course.accelerator)
    if course.reduction.restores_norm(view.block):
        plan = replace(plan, restore_norm=True)
    return *execute(plan, view.residual, state, course.accelerator), plan


def _attend_and_reduce(parts: BlockParts, x: Tensor, state: TokenState, course: Course, index: int) -> BlockStep:
    """First half of a block, and the reduction after it.

    The view is returned to a watcher only: what it holds (features, queries, keys) must be free again when the MLP
    asks for memory, as it is in the vanilla model.
    """
    view = attend(parts, x, state, course, index)
    tokens, state, plan = reduce_tokens(view, state, course)
    return BlockStep(tokens, state, plan, view) if view.explain else BlockStep(tokens, state)


def _without_gradient(look: Callable[[BlockView], Decision], view: BlockView) -> Decision:
    if not torch.is_grad_enabled():  # `no_grad` costs as much as a small operation
        return look(view)
    with torch.no_grad():
        return look(view)


def _bias(x: Tensor, state: TokenState, course: Course, index: int) -> Tensor | None:
    """(B, 1, 1, N) what proportional attention adds to the logits: alpha_l log(size)."""
    bias = state.attention_bias(x.dtype) if course.proportional else None
    gain = course.reduction.gain(index, len(course.amounts))
    return bias if bias is None or gain == 1.0 else bias * gain


def _softened(projection: Projection, x: Tensor, state: TokenState, course: Course, index: int) -> Projection:
    """The same with a smaller factor on the logits where tokens have gone: those that are left differ more."""
    soften, gone = course.reduction.softens(index), sum(course.amounts[:index])
    if not soften or not gone:
        return projection
    share = gone / (gone + x.shape[1] - state.num_prefix)
    return projection._replace(scale=projection.scale * (1 - soften * share))


def _cast(bias: Tensor | None, projection: Projection) -> Tensor | None:
    # Under autocast the residual is float32 while queries are bfloat16; the kernel wants one dtype.
    query = projection.query
    return None if bias is None else replicated(bias if bias.dtype == query.dtype else bias.to(query.dtype), query)
