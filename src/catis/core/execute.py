"""The one executor: applies any Plan to features, sizes, provenance, CLS attention and rotary positions."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext

import torch
import torch.nn.functional as F
from torch import Tensor

from catis.core.plan import EVICTED, Plan
from catis.core.state import TokenState

__all__ = ["execute", "follow", "group_sum", "take_rows", "unmerge"]


def execute(plan: Plan, x: Tensor, state: TokenState) -> tuple[Tensor, TokenState]:
    """Apply a plan to the tokens and to everything that travels with them.

    Args:
        plan: What to do with the N_p patch tokens.
        x: (B, N, C) tokens, prefix first.
        state: Their companions.

    Returns:
        (B, N - R, C) tokens and their companions.

    Example:
        >>> plan = Plan(torch.tensor([[0, 2]]), torch.tensor([[1]]), torch.tensor([[0]]))
        >>> x, state = execute(plan, torch.tensor([[[1.0], [3.0], [9.0]]]), TokenState(num_prefix=0))
        >>> x.flatten().tolist(), state.size.tolist()
        ([2.0, 9.0], [[2.0, 1.0]])
    """
    with _full_precision(x.device.type):
        size = _next_size(plan, state.size)
        return _merge(plan, x, state, size), TokenState(
            num_prefix=state.num_prefix,
            size=size,
            cls_attention=_next_cls(plan),
            provenance=None if state.provenance is None else follow(plan, state.provenance),
            positions=None if state.positions is None else take_rows(state.positions, plan.keep),
        )


def take_rows(values: Tensor, index: Tensor) -> Tensor:
    """Rows `index` (B, K) of (B, N, D), or of a batch-shared (N, D), as (B, K, D).

    One flat index_select: on CPU it copies whole rows, where gather would go element by element.
    """
    batch, kept = index.shape
    if values.ndim == 2:
        return values.index_select(0, index.reshape(-1)).view(batch, kept, -1)
    offset = torch.arange(batch, device=index.device)[:, None] * values.shape[1]
    rows = values.reshape(-1, values.shape[-1]).index_select(0, (index + offset).reshape(-1))
    return rows.view(batch, kept, -1)


def group_sum(plan: Plan, values: Tensor) -> Tensor:
    """(B, K) sum of per-token (B, N_p) values over each surviving token's group; what is evicted is dropped."""
    kept = values.gather(1, plan.keep)
    return kept if plan.target is None else _add_to(kept, plan, values.gather(1, plan.removed))


def follow(plan: Plan, provenance: Tensor) -> Tensor:
    """Provenance after the plan: where each original patch is now, or EVICTED."""
    moved = plan.slots().gather(1, provenance.clamp_min(0))
    return torch.where(provenance < 0, EVICTED, moved)


def unmerge(x: Tensor, state: TokenState) -> Tensor:
    """Give every original patch its token back: (B, prefix + patches at the start, C).

    A patch that was merged gets its group's vector. A patch that was evicted gets the mean of the surviving patch
    tokens, weighted by size, so that an average pool over the full grid is the size-weighted pool of the survivors.

    Example:
        >>> plan = Plan(torch.tensor([[0, 2]]), torch.tensor([[1]]), torch.tensor([[0]]))
        >>> start = TokenState.start(num_prefix=0, num_patches=3, batch=1, track=True)
        >>> unmerge(*execute(plan, torch.tensor([[[1.0], [3.0], [9.0]]]), start)).flatten().tolist()
        [2.0, 2.0, 9.0]
    """
    assert state.provenance is not None, "unmerge needs a state that tracked provenance"
    prefix, patches = x[:, : state.num_prefix], x[:, state.num_prefix :]
    full = take_rows(patches, state.provenance.clamp_min(0))
    fill = weighted_mean(patches, state.size)
    return torch.cat([prefix, torch.where((state.provenance < 0).unsqueeze(-1), fill.unsqueeze(1), full)], 1)


def weighted_mean(tokens: Tensor, weight: Tensor | None) -> Tensor:
    """(B, C) mean of (B, N, C) tokens weighted by (B, N), in float32 for half-precision tokens."""
    if weight is None:
        return tokens.mean(1)
    wide = torch.promote_types(tokens.dtype, torch.float32)
    share = weight.to(wide) / weight.sum(-1, keepdim=True)
    with _full_precision(tokens.device.type):
        return torch.bmm(share.unsqueeze(1), tokens.to(wide)).squeeze(1).to(tokens.dtype)


def _full_precision(device_type: str) -> AbstractContextManager[object]:
    # Sizes above 256 are not exact in bfloat16, so autocast must not touch the sums; entered only when it would.
    if torch.is_autocast_enabled(device_type):
        return torch.autocast(device_type, enabled=False)
    return nullcontext()


def _add_to(base: Tensor, plan: Plan, values: Tensor, prefix: int = 0) -> Tensor:
    """Add (B, R, ...) values to their targets' rows of (B, prefix + K, ...), which is overwritten.

    On CPU only R rows are touched. Elsewhere, and in an exported graph, it is a product with the membership matrix:
    deterministic on CUDA, and plain MatMul where TensorRT lacks scatter with reduction.
    """
    assert plan.target is not None
    if base.device.type != "cpu" or torch.compiler.is_exporting():
        members = F.pad(_membership(plan), (0, 0, prefix, 0)).to(base.dtype)
        return base + torch.bmm(members, values.reshape(*values.shape[:2], -1)).view_as(base)
    rows = plan.target if plan.all_merge else plan.target.clamp_min(0)
    if not plan.all_merge:
        merges = (plan.target >= 0).view(*plan.target.shape, *[1] * (values.ndim - 2))
        values = torch.where(merges, values, 0.0)
    rows = (rows + torch.arange(prefix, base.shape[0] * base.shape[1], base.shape[1])[:, None]).view(-1)
    base.view(-1, *base.shape[2:]).index_add_(0, rows, values.reshape(-1, *base.shape[2:]))
    return base


def _membership(plan: Plan) -> Tensor:
    """(B, K, R) 1 where removed token r merges into survivor k; an evicted token's column is all zero."""
    assert plan.target is not None
    slots = torch.arange(plan.num_kept, device=plan.keep.device)
    return (plan.target[:, None, :] == slots[:, None]).to(torch.float32)


def _next_size(plan: Plan, size: Tensor | None) -> Tensor | None:
    if size is not None:
        return group_sum(plan, size)
    if plan.target is None:
        return None
    ones = torch.ones(plan.keep.shape, device=plan.keep.device)
    return _add_to(ones, plan, torch.ones(plan.removed.shape, device=plan.keep.device))


def _next_cls(plan: Plan) -> Tensor | None:
    if plan.cls_attention is None:
        return None
    carried = group_sum(plan, plan.cls_attention)
    return carried / carried.sum(-1, keepdim=True).clamp_min(torch.finfo(carried.dtype).tiny)


def _merge(plan: Plan, x: Tensor, state: TokenState, size: Tensor | None) -> Tensor:
    prefix = state.num_prefix
    kept = take_rows(x, _with_prefix(plan.keep, prefix))
    if plan.target is None:
        return kept
    wide = torch.promote_types(x.dtype, torch.float32)  # half precision would lose small shares
    slot = plan.target if plan.all_merge else plan.target.clamp_min(0)
    home = plan.keep.gather(1, slot)
    gone, destination = take_rows(x, torch.cat([plan.removed, home], 1) + prefix).to(wide).chunk(2, 1)
    if plan.blend == "max":
        return _merge_max(plan, kept, gone, prefix)
    # A group's mean is its destination plus each member's share of the way to it, so only destinations change.
    share = _shares(plan, slot, state.size, size, wide)
    step = (gone - destination) * share.unsqueeze(-1)
    if plan.blend in ("mlerp", "mlerp_dst"):
        own = kept[:, prefix:].norm(dim=-1, dtype=wide)
        return _rescale(plan, _add_to(kept.to(wide, copy=True), plan, step, prefix), own, gone, prefix).to(x.dtype)
    return _add_to(kept.to(wide), plan, step, prefix).to(x.dtype)


def _with_prefix(keep: Tensor, prefix: int) -> Tensor:
    if not prefix:
        return keep
    return torch.cat([torch.arange(prefix, device=keep.device).expand(keep.shape[0], -1), keep + prefix], 1)


def _shares(plan: Plan, slot: Tensor, size: Tensor | None, next_size: Tensor | None, dtype: torch.dtype) -> Tensor:
    """(B, R) weight of each removed token over the total weight of its group."""
    weight = plan.weight if plan.blend == "weight" else size if plan.blend == "size" else None
    if plan.blend == "size":
        total = next_size
    elif weight is not None:
        total = group_sum(plan, weight)
    else:
        total = _next_size(plan, None)
    assert total is not None
    own = 1.0 if weight is None else weight.gather(1, plan.removed).to(dtype)
    return own / total.gather(1, slot).to(dtype)


def _rescale(plan: Plan, merged: Tensor, own: Tensor, gone: Tensor, prefix: int) -> Tensor:
    """MLERP: give each merged vector the length of its longest member (BASELINES 1.2)."""
    members = _membership(plan)
    longest = torch.maximum(own, (members * gone.norm(dim=-1)[:, None, :]).amax(-1))
    length = merged[:, prefix:].norm(dim=-1) if plan.blend == "mlerp" else own
    is_destination = members.any(-1) & (length > 0)
    scale = torch.where(is_destination, longest / length, 1.0)
    return merged * F.pad(scale, (prefix, 0), value=1.0).unsqueeze(-1)


def _merge_max(plan: Plan, kept: Tensor, gone: Tensor, prefix: int) -> Tensor:
    assert plan.target is not None
    evicted = (plan.target < 0).unsqueeze(-1)
    index = (plan.target.clamp_min(0) + prefix).unsqueeze(-1).expand_as(gone)
    candidates = gone.to(kept.dtype).masked_fill(evicted, float("-inf"))
    return kept.scatter_reduce(1, index, candidates, "amax")
