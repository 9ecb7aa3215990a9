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

    What is added up in a group stands in columns beside each other: size times token, size, A_cls. So one copy brings
    the rows into order, and one product with a (B, P + K, R) matrix of zeros and ones adds those that go to those that
    stay. The mean is the sum over the size.
    """
    if plan.target is None or plan.blend != "size":
        return None
    prefix, width = state.num_prefix, x.shape[-1]
    columns, survivors = _columns(plan, x, state), prefix + plan.num_kept
    rows = take_rows(columns, _rows(plan, prefix))
    kept, gone = torch.split(rows, [survivors, plan.removed.shape[1]], 1)
    summed = kept + torch.bmm(_membership(plan, prefix).to(kept.dtype), gone)
    tokens, size, *attention = torch.split(summed, [width] + [1] * (columns.shape[-1] - width), -1)
    return Moved(
        (tokens / size).to(x.dtype),
        size[:, prefix:, 0].to(torch.float32),
        as_shares(attention[0][:, prefix:, 0]) if attention else None,
        size.log().view(-1, 1, 1, survivors).to(x.dtype),
        size,
    )


def _columns(plan: Plan, x: Tensor, state: TokenState) -> Tensor:
    """(B, P + N_p, C + 1 or 2) what is added up in a group; prefix tokens have size 1 and no attention."""
    wide, prefix = x.to(torch.promote_types(x.dtype, torch.float32)), state.num_prefix
    size = state.size_column
    if size is None:
        size = torch.ones_like(wide[:, :, :1]) if state.size is None else _column(state.size, prefix, 1.0)
    parts = [wide if state.size is None else wide * size, size.to(wide.dtype)]
    if plan.cls_attention is not None:
        parts.append(_column(plan.cls_attention, prefix, 0.0).to(wide.dtype))
    return torch.cat(parts, -1)


def _column(values: Tensor, prefix: int, of_prefix: float) -> Tensor:
    """(B, N_p) values as (B, P + N_p, 1)."""
    return F.pad(values, (prefix, 0), value=of_prefix)[:, :, None]


def _rows(plan: Plan, prefix: int) -> Tensor:
    """(B, P + K + R) all rows: the prefix, what stays, what goes."""
    patches = torch.cat([plan.keep, plan.removed], -1) + prefix
    if not prefix:
        return patches
    return torch.cat([torch.arange(prefix, device=patches.device).expand(patches.shape[0], -1), patches], -1)


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
