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

__all__ = ["merge_in_graph"]

_NOBODY = EVICTED - 1
"""A slot that no removed token has."""


def merge_in_graph(plan: Plan, x: Tensor, state: TokenState) -> Moved | None:
    """Tokens, sizes and A_cls after a plan that merges by size; None for any other.

    A surviving token is weighed by its share of its group, and so is what merges into it: a product with a
    (B, P + K, R) matrix of shares. A token that nobody merges into has a share of exactly 1.
    """
    if plan.target is None or plan.blend != "size":
        return None
    prefix, wide = state.num_prefix, torch.promote_types(x.dtype, torch.float32)
    members = _membership(plan, prefix)
    size = torch.ones_like(plan.keep, dtype=torch.float32) if state.size is None else state.size.gather(1, plan.keep)
    own = F.pad(size, (prefix, 0), value=1.0)  # (B, P + K)
    joining = members if state.size is None else members * state.size.gather(1, plan.removed)[:, None, :]
    total = own + joining.sum(-1)
    kept = take_rows(x, plan.kept_rows(prefix)).to(wide) * (own / total).to(wide)[:, :, None]
    gone = take_rows(x, plan.removed + prefix).to(wide)
    tokens = kept + torch.bmm((joining / total[:, :, None]).to(wide), gone)
    attention = None if plan.cls_attention is None else _carried(plan, plan.cls_attention, members[:, prefix:])
    return Moved(tokens.to(x.dtype), total[:, prefix:], attention, total.log()[:, None, None, :])


def _membership(plan: Plan, prefix: int) -> Tensor:
    """(B, P + K, R) 1 where a removed token merges into a survivor; prefix rows and evicted columns are 0."""
    assert plan.target is not None
    nobody = torch.full((prefix,), _NOBODY, device=plan.keep.device)
    slots = torch.cat([nobody, torch.arange(plan.num_kept, device=plan.keep.device)])
    return (plan.target[:, None, :] == slots[:, None]).to(torch.float32)


def _carried(plan: Plan, attention: Tensor, members: Tensor) -> Tensor:
    """(B, K) A_cls: summed over what merged, dropped with what was evicted."""
    return as_shares(attention.gather(1, plan.keep) + (members * attention.gather(1, plan.removed)[:, None, :]).sum(-1))
