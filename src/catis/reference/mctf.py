"""MCTF's block as its authors run it: reduction before attention, on the one-step-ahead map (docs/methods.md, MCTF)."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F
from torch import Tensor

from catis.core.block import BlockRunner, BlockStep, Course
from catis.core.execute import execute
from catis.core.parts import BlockParts, Projection
from catis.core.plan import Plan
from catis.core.schedule import Schedule
from catis.core.state import TokenState
from catis.methods.mctf import MCTF, pooling_weight

_FLOOR = 10  # the authors never go below ten tokens


@dataclass(frozen=True)
class MCTFReference(MCTF):
    """MCTF in its authors' place, blocks and amounts.

    Attributes:
        reference: Always True; says in recipes and records that this is the authors' form.
        one_step_ahead: 1 reuses the aggregated map on the merged tokens, 2 recomputes attention, 0 reduces at the end
            of the block.
        blocks: The blocks that reduce; None is 1 .. L-1.

    Example:
        >>> MCTFReference().amount(Schedule.parse(16), block=0, num_patches=196, num_prefix=1)
        0
    """

    reference: bool = True
    one_step_ahead: int = 1
    blocks: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        """Check the options."""
        super().__post_init__()
        if not self.reference:
            raise ValueError(f"reference={self.reference!r}: MCTFReference is the authors' form")
        if self.one_step_ahead not in (0, 1, 2):
            raise ValueError(f"one_step_ahead={self.one_step_ahead!r}: expected 0, 1 or 2")

    def amount(self, schedule: Schedule, block: int, num_patches: int, num_prefix: int) -> int:
        """The authors' rule, in the blocks that reduce."""
        if block == 0 if self.blocks is None else block not in self.blocks:
            return 0
        return authors_amount(schedule, block, num_patches + num_prefix)

    def check(self, num_prefix: int, depth: int) -> None:
        """The authors' form protects a CLS token only."""
        if num_prefix > 1:
            raise ValueError(
                f"mctf in reference mode protects one prefix token, but this model has {num_prefix}: the authors' code "
                "would merge the others; leave reference=False"
            )

    @property
    def block_runner(self) -> BlockRunner:
        """The authors' block."""
        return self._run_block

    def _run_block(self, parts: BlockParts, x: Tensor, state: TokenState, course: Course, index: int) -> BlockStep:
        """One block: choose groups from x and its attention map, merge, attend with the merged map, MLP."""
        prefix, r = state.num_prefix, course.amounts[index]
        if not r:
            return BlockStep(parts.add_mlp(_attend(parts, x, state, course)), state)
        attention = _map(parts.project(parts.norm(x), state.positions), _bias(x, state, course))
        received = attention.mean((1, 2))[:, prefix:]
        if self.one_step_ahead == 0:
            x = parts.add_mlp(_attend(parts, x, state, course))
        with torch.no_grad():
            plan = self.fuse(x[:, prefix:], received, state.size, prefix, r)
        plan = replace(plan, weight=pooling_weight(received, state.size))  # with its gradient
        before = state
        x, state = execute(plan, x, state, course.accelerator)
        if self.one_step_ahead == 0:
            return BlockStep(x, state, plan)
        if self.one_step_ahead == 2:
            return BlockStep(parts.add_mlp(_attend(parts, x, state, course)), state, plan)
        features = parts.norm(x)
        value = parts.project(features, state.positions).value
        heads = aggregate_map(plan, attention, before) @ value
        return BlockStep(parts.add_mlp(parts.add_attention(x, parts.output(heads, features))), state, plan)


def authors_amount(schedule: Schedule, block: int, num_tokens: int) -> int:
    """The authors' rule: a floor of ten tokens first, then fractions of T - 1, then half of T - 1.

    Example:
        >>> [authors_amount(Schedule.parse(16), 0, tokens) for tokens in (197, 22, 12, 10)]
        [16, 10, 2, 0]
    """
    wanted: float = schedule.wanted(block)
    if num_tokens - wanted < _FLOOR:
        wanted = num_tokens - _FLOOR
    count = math.trunc((num_tokens - 1) * wanted) if 0 < wanted < 1 else int(wanted)
    return max(0, min(count, (num_tokens - 1) // 2))


def aggregate_map(plan: Plan, attention: Tensor, state: TokenState) -> Tensor:
    """(B, H, N', N') map of the merged tokens: summed over the keys of a group, averaged over its queries."""
    prefix, kept = state.num_prefix, plan.num_kept
    member = F.one_hot(plan.slots(), kept).transpose(1, 2).to(attention.dtype)  # (B, K, N_p)
    weight = {"weight": plan.weight, "size": state.size}.get(plan.blend)
    average = member if weight is None else member * weight[:, None, :].to(attention.dtype)
    average = average / average.sum(-1, keepdim=True)
    merged = attention @ _with_prefix(member, prefix).transpose(1, 2)[:, None]
    if plan.blend == "max":
        grouped = _with_prefix(member, prefix)[:, None, :, :, None] * merged[:, :, None]  # attention is never negative
        return grouped.amax(3)
    return _with_prefix(average, prefix)[:, None] @ merged


def _with_prefix(member: Tensor, prefix: int) -> Tensor:
    """(B, P + K, P + N_p) membership, in which every prefix token is a group of its own."""
    own = torch.eye(prefix, dtype=member.dtype, device=member.device).expand(member.shape[0], -1, -1)
    return torch.cat([F.pad(own, (0, member.shape[2])), F.pad(member, (prefix, 0))], 1)


def _bias(x: Tensor, state: TokenState, course: Course) -> Tensor | None:
    return state.attention_bias(x.dtype) if course.proportional else None


def _map(projection: Projection, bias: Tensor | None) -> Tensor:
    logits = (projection.query * projection.scale) @ projection.key.transpose(-2, -1)
    return torch.softmax(logits if bias is None else logits + bias, -1)


def _attend(parts: BlockParts, x: Tensor, state: TokenState, course: Course) -> Tensor:
    features = parts.norm(x)
    projection = parts.project(features, state.positions)
    return parts.add_attention(x, parts.output(parts.mix(projection, _bias(x, state, course)), features))
