"""A merge in as few operations as can be, for exported graphs, where each is a node that a runtime has to call."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from catis.core.accelerator import Moved
from catis.core.norms import norms, with_norms
from catis.core.plan import EVICTED, Plan
from catis.core.rows import first_rows, rows_of_batch
from catis.core.signals import as_shares
from catis.core.state import TokenState

_NOBODY = EVICTED - 1
"""A token or a slot that no removed token merges into."""


def merge_in_graph(plan: Plan, x: Tensor, state: TokenState) -> Moved | None:
    """Tokens, sizes and A_cls after a plan that merges by size or by a weight; None for any other.

    Whole tokens are copied once: those that go come to those that stay by a product with a (B, P + K, R) matrix of
    their shares. Sizes, A_cls and weights are columns of a narrow tensor of their own.
    """
    if plan.target is None or plan.blend not in ("size", "weight"):
        return None
    prefix, wide = state.num_prefix, x.to(torch.promote_types(x.dtype, torch.float32))
    stay, go = _rows(plan, prefix)
    members = _membership(plan, prefix).to(wide.dtype)
    narrow = _narrow(plan, wide, state)
    own, gone = rows_of_batch(narrow, stay), rows_of_batch(narrow, go)
    summed = own + members @ gone
    size, weight = _pick(summed, 0), 0 if plan.blend == "size" else narrow.shape[-1] - 1
    total = _pick(summed, weight)
    shares = members * _pick(gone, weight).transpose(1, 2) / total
    part = _pick(own, weight) / total  # exactly 1 where nobody comes
    staying, going = rows_of_batch(wide, stay), rows_of_batch(wide, go)
    merged = staying * part + shares @ going
    if plan.restores:
        merged = with_norms(merged, norms(staying) * part + shares @ norms(going))
    return Moved(
        merged.to(x.dtype),
        size[:, prefix:, 0].to(torch.float32),
        None if plan.cls_attention is None else as_shares(summed[:, prefix:, 1]),
        size.log().view(-1, 1, 1, size.shape[1]).to(x.dtype),
        size,
    )


def _narrow(plan: Plan, x: Tensor, state: TokenState) -> Tensor:
    """(B, P + N_p, 1 to 3) sizes, A_cls where it is used, and weights where groups are weighed by others than sizes."""
    columns = [_size_column(x, state)]
    if plan.cls_attention is not None:
        columns.append(_column(plan.cls_attention, state.num_prefix, 0.0).to(x.dtype))
    if plan.blend == "weight":
        assert plan.weight is not None
        columns.append(_column(plan.weight, state.num_prefix, 1.0).to(x.dtype))
    return columns[0] if len(columns) == 1 else torch.cat(columns, -1)


def _pick(columns: Tensor, index: int) -> Tensor:
    """One of (B, N, D) columns, as (B, N, 1)."""
    return columns if columns.shape[-1] == 1 else columns[:, :, index : index + 1]


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
