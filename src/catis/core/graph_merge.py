"""A merge in as few operations as can be, for exported graphs, where each is a node that a runtime has to call."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from catis.core.accelerator import Moved
from catis.core.plan import EVICTED, Plan
from catis.core.rows import first_rows, rows_of_batch
from catis.core.signals import as_shares
from catis.core.state import TokenState

_NOBODY = EVICTED - 1
"""A token or a slot that no removed token merges into."""


def merge_in_graph(plan: Plan, x: Tensor, state: TokenState) -> Moved | None:
    """Tokens, sizes and A_cls after a plan that merges by size; None for any other.

    A product with a (B, P + K, R) matrix of zeros and ones adds rows that go to those that stay. Sizes and A_cls are
    columns of a narrow tensor of their own, so that whole tokens are copied once only.
    """
    if plan.target is None or plan.blend != "size":
        return None
    prefix, wide = state.num_prefix, x.to(torch.promote_types(x.dtype, torch.float32))
    narrow = _narrow(plan, wide, state)
    weighed = wide if state.size is None else wide * _size_column(wide, state)
    stay, go = _rows(plan, prefix)
    members = _membership(plan, prefix).to(wide.dtype)
    size, *attention = torch.split(_added_up(narrow, stay, go, members), 1, -1)
    return Moved(
        (_added_up(weighed, stay, go, members) / size).to(x.dtype),
        size[:, prefix:, 0].to(torch.float32),
        as_shares(attention[0][:, prefix:, 0]) if attention else None,
        size.log().view(-1, 1, 1, size.shape[1]).to(x.dtype),
        size,
    )


def _added_up(values: Tensor, stay: Tensor, go: Tensor, members: Tensor) -> Tensor:
    """(B, P + K, D) rows that stay, each with those that merge into it."""
    return rows_of_batch(values, stay) + members @ rows_of_batch(values, go)


def _narrow(plan: Plan, x: Tensor, state: TokenState) -> Tensor:
    """(B, P + N_p, 1 or 2) sizes and, where it is used, A_cls, which prefix tokens have none of."""
    size = _size_column(x, state)
    if plan.cls_attention is None:
        return size
    return torch.cat([size, _column(plan.cls_attention, state.num_prefix, 0.0).to(x.dtype)], -1)


def _size_column(x: Tensor, state: TokenState) -> Tensor:
    """(B, P + N_p, 1) sizes; prefix tokens have size 1."""
    if state.size_column is not None:
        return state.size_column.to(x.dtype)
    if state.size is None:
        return torch.ones_like(x[:, :, :1])
    return _column(state.size, state.num_prefix, 1.0).to(x.dtype)


def _column(values: Tensor, prefix: int, of_prefix: float) -> Tensor:
    """(B, N_p) values as (B, P + N_p, 1)."""
    return F.pad(values, (prefix, 0), value=of_prefix)[:, :, None]


def _rows(plan: Plan, prefix: int) -> tuple[Tensor, Tensor]:
    """(B, P + K) rows of the whole batch that stay, the prefix first, and (B, R) rows that go."""
    first = first_rows(plan.keep, prefix + plan.num_kept + plan.removed.shape[1])
    patches = first + prefix
    of_prefix = [first + torch.arange(prefix, device=first.device)] if prefix else []
    return torch.cat([*of_prefix, plan.keep + patches], -1), plan.removed + patches


def _membership(plan: Plan, prefix: int) -> Tensor:
    """(B, P + K, R) where a removed token merges into a survivor; nowhere in prefix rows and evicted columns.

    Tokens are compared where the plan names them: then nobody has to find out their slots.
    """
    assert plan.target is not None
    nobody = torch.full((prefix,), _NOBODY, device=plan.keep.device)
    if plan.into is None:
        slots = torch.cat([nobody, torch.arange(plan.num_kept, device=plan.keep.device)])
        return plan.target[:, None, :] == slots[:, None]
    survivors = torch.cat([nobody.expand(plan.keep.shape[0], -1), plan.keep], -1)
    return plan.into[:, None, :] == survivors[:, :, None]
