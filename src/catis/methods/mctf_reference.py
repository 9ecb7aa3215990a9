"""MCTF's block as its authors run it: reduction before attention, on the one-step-ahead map (BASELINES 1.4)."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from catis.core.execute import execute
from catis.core.parts import BlockParts, Projection
from catis.core.plan import Plan
from catis.core.reduction import Reduction
from catis.core.schedule import Schedule
from catis.core.state import TokenState

__all__ = ["aggregate_map", "amount", "run_block"]

_FLOOR = 10  # the authors never go below ten tokens
Fuse = Callable[[Tensor, Tensor, Tensor | None, int, int], Plan]


def amount(schedule: Schedule, layer: int, num_tokens: int) -> int:
    """The authors' rule: a floor of ten tokens first, then fractions of T - 1, then half of T - 1.

    Example:
        >>> [amount(Schedule.parse(16), 0, tokens) for tokens in (197, 22, 12, 10)]
        [16, 10, 2, 0]
    """
    wanted: float = schedule.wanted(layer)
    if num_tokens - wanted < _FLOOR:
        wanted = num_tokens - _FLOOR
    count = math.trunc((num_tokens - 1) * wanted) if 0 < wanted < 1 else int(wanted)
    return max(0, min(count, (num_tokens - 1) // 2))


def run_block(
    fuse: Fuse, one_step_ahead: int, parts: BlockParts, x: Tensor, state: TokenState, layer: int, settings: Reduction
) -> tuple[Tensor, TokenState, Plan | None]:
    """One block: choose groups from x and its attention map, merge, attend with the merged map, MLP."""
    prefix = state.num_prefix
    r = settings.amount(layer, x.shape[1] - prefix, prefix)
    if not r:
        return parts.add_mlp(_attend(parts, x, state, settings)), state, None
    attention = _map(parts.project(parts.norm(x), state.positions), _bias(x, state, settings))
    received = attention.mean((1, 2))[:, prefix:]
    if one_step_ahead == 0:
        x = parts.add_mlp(_attend(parts, x, state, settings))
    with torch.no_grad():
        plan = fuse(x[:, prefix:], received, state.size, prefix, r)
    before = state
    x, state = execute(plan, x, state)
    if one_step_ahead == 0:
        return x, state, plan
    if one_step_ahead == 2:
        return parts.add_mlp(_attend(parts, x, state, settings)), state, plan
    features = parts.norm(x)
    value = parts.project(features, state.positions).value
    heads = aggregate_map(plan, attention, before) @ value
    return parts.add_mlp(parts.add_attention(x, parts.output(heads, features))), state, plan


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
    padded = F.pad(member, (prefix, 0, prefix, 0))
    for token in range(prefix):
        padded[:, token, token] = 1
    return padded


def _bias(x: Tensor, state: TokenState, settings: Reduction) -> Tensor | None:
    return state.attention_bias(x.dtype) if settings.prop_attn else None


def _map(projection: Projection, bias: Tensor | None) -> Tensor:
    logits = (projection.query * projection.scale) @ projection.key.transpose(-2, -1)
    return torch.softmax(logits if bias is None else logits + bias, -1)


def _attend(parts: BlockParts, x: Tensor, state: TokenState, settings: Reduction) -> Tensor:
    features = parts.norm(x)
    projection = parts.project(features, state.positions)
    return parts.add_attention(x, parts.output(parts.mix(projection, _bias(x, state, settings)), features))
