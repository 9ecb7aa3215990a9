"""The executor of exported graphs does what the other one does, in fewer operations."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from catis.core.execute import execute
from catis.core.graph_merge import merge_in_graph
from catis.core.plan import EVICTED, Plan
from catis.core.state import TokenState


def scene(prefix: int, sized: bool, evicts: bool) -> tuple[Plan, torch.Tensor, TokenState]:
    """Two images of eight patches; three go, two of them into the same token."""
    torch.manual_seed(0)
    order = torch.stack([torch.randperm(8), torch.randperm(8)])
    target = torch.tensor([[1, 1, EVICTED if evicts else 4], [0, 3, 0]])
    attention = torch.rand(2, 8).softmax(-1)
    plan = Plan(order[:, 3:].sort(-1).values, order[:, :3], target, not evicts, cls_attention=attention)
    state = TokenState(prefix, torch.randint(1, 5, (2, 8)).float() if sized else None)
    return plan, torch.randn(2, prefix + 8, 16), state


@pytest.mark.parametrize("prefix", [0, 1, 2])
@pytest.mark.parametrize("sized", [False, True])
@pytest.mark.parametrize("evicts", [False, True])
@pytest.mark.parametrize("blend", ["size", "weight"])
@pytest.mark.parametrize("restore_norm", [False, True])
def test_same_tokens_sizes_attention_and_bias(
    prefix: int, sized: bool, evicts: bool, blend: str, restore_norm: bool
) -> None:
    plan, x, state = scene(prefix, sized, evicts)
    plan = replace(plan, blend=blend, weight=torch.rand(2, 8) if blend == "weight" else None, restore_norm=restore_norm)
    tokens, after = execute(plan, x.clone(), state)
    moved = merge_in_graph(plan, x, state)
    assert moved is not None
    torch.testing.assert_close(moved.tokens, tokens, rtol=0, atol=1e-6)
    torch.testing.assert_close(moved.size, after.size)
    torch.testing.assert_close(moved.cls_attention, after.cls_attention)
    torch.testing.assert_close(moved.log_size, after.attention_bias(torch.float32))
    torch.testing.assert_close(moved.size_column[:, prefix:, 0], after.size)
    assert bool((moved.size_column[:, :prefix] == 1).all())


def test_a_token_that_nothing_joins_is_itself_whatever_its_weight() -> None:
    plan, x, state = scene(1, sized=True, evicts=False)
    tiny = torch.full((2, 8), torch.finfo(torch.float32).tiny)
    moved = merge_in_graph(replace(plan, blend="weight", weight=tiny, cls_attention=None), x, state)
    alone = [slot for slot in range(5) if slot not in plan.target[1]]
    assert torch.equal(moved.tokens[1, 1:][alone], x[1, 1:][plan.keep[1, alone]])
    torch.testing.assert_close(moved.tokens, execute(replace(plan, blend="mean"), x.clone(), state)[0])
    assert moved.cls_attention is None


@pytest.mark.parametrize("prefix", [0, 1])
def test_tokens_may_be_named_in_place_of_slots(prefix: int) -> None:
    plan, x, state = scene(prefix, sized=True, evicts=True)
    into = torch.where(plan.target < 0, EVICTED, plan.keep.gather(1, plan.target.clamp_min(0)))
    named = merge_in_graph(replace(plan, into=into), x, state)
    torch.testing.assert_close(named.tokens, merge_in_graph(plan, x, state).tokens)


def test_a_column_of_sizes_is_as_good_as_sizes() -> None:
    plan, x, state = scene(1, sized=True, evicts=True)
    column = torch.cat([torch.ones(2, 1), state.size], 1)[:, :, None]
    carried = merge_in_graph(plan, x, replace(state, size_column=column))
    torch.testing.assert_close(carried.tokens, merge_in_graph(plan, x, state).tokens)


@pytest.mark.parametrize("change", [{"target": None}, {"blend": "mlerp"}])
def test_other_plans_are_left_to_the_other_executor(change: dict[str, object]) -> None:
    plan, x, state = scene(1, False, False)
    other = Plan(**{"keep": plan.keep, "removed": plan.removed, "target": plan.target, **change})
    assert merge_in_graph(other, x, state) is None
