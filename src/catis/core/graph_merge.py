"""A merge in as few operations as can be, for exported graphs, where each is a node that a runtime has to call."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from catis.core.accelerator import Moved
from catis.core.plan import EVICTED, Plan
from catis.core.rows import take_rows
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
    stay, go = _survivors(plan, prefix), plan.removed + prefix
    members = _membership(plan, prefix).to(wide.dtype)
    narrow = _narrow(plan, wide, state)
    kept, gone = take_rows(narrow, stay), take_rows(narrow, go)
    size, *attention = torch.split(kept + members @ gone, 1, -1)
    tokens, lost = take_rows(wide, stay), take_rows(wide, go)
    if state.size is not None:
        tokens, lost = tokens * kept[:, :, :1], lost * gone[:, :, :1]
    return Moved(
        ((tokens + members @ lost) / size).to(x.dtype),
        size[:, prefix:, 0].to(torch.float32),
        as_shares(attention[0][:, prefix:, 0]) if attention else None,
        size.log().view(-1, 1, 1, size.shape[1]).to(x.dtype),
        size,
    )


def _narrow(plan: Plan, x: Tensor, state: TokenState) -> Tensor:
    """(B, P + N_p, 1 or 2) sizes and, where it is used, A_cls; prefix tokens have size 1 and no attention."""
    size, prefix = state.size_column, state.num_prefix
    if size is None:
        size = torch.ones_like(x[:, :, :1]) if state.size is None else _column(state.size, prefix, 1.0)
    if plan.cls_attention is None:
        return size.to(x.dtype)
    return torch.cat([size.to(x.dtype), _column(plan.cls_attention, prefix, 0.0).to(x.dtype)], -1)


def _column(values: Tensor, prefix: int, of_prefix: float) -> Tensor:
    """(B, N_p) values as (B, P + N_p, 1)."""
    return F.pad(values, (prefix, 0), value=of_prefix)[:, :, None]


def _survivors(plan: Plan, prefix: int) -> Tensor:
    """(B, P + K) rows of the prefix and of what stays."""
    rows = plan.keep + prefix
    if not prefix:
        return rows
    return torch.cat([torch.arange(prefix, device=rows.device).expand(rows.shape[0], -1), rows], -1)


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
