"""The one executor: applies any Plan to features, sizes, provenance, CLS attention and rotary positions."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from catis.core.arrays import NumpyArrays, TorchArrays, arrays_for
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
    xp = arrays_for(plan.keep)
    with _full_precision(x.device.type):
        size = _next_size(xp, plan, state.size)
        return _merge(xp, plan, x, state, size), TokenState(
            num_prefix=state.num_prefix,
            size=size,
            cls_attention=None if plan.cls_attention is None else _renormalised(xp, plan, plan.cls_attention),
            provenance=None if state.provenance is None else follow(plan, state.provenance),
            positions=None if state.positions is None else take_rows(state.positions, plan.keep),
        )


def take_rows(values: Tensor, index: Tensor) -> Tensor:
    """Rows `index` (B, K) of (B, N, D), or of a batch-shared (N, D), as (B, K, D)."""
    xp = arrays_for(index)
    return _rows(xp, values, xp.read(index))


def _rows(xp: Any, values: Tensor, index: Any) -> Tensor:
    """`take_rows` of an index array; one flat index_select copies whole rows, where gather goes by element."""
    batch, kept = index.shape
    if values.ndim == 3 and not (xp is NumpyArrays and batch == 1):
        index = index + _first_rows(xp, index, values.shape[1])
    return values.reshape(-1, values.shape[-1]).index_select(0, xp.write(index.reshape(-1))).view(batch, kept, -1)


def group_sum(plan: Plan, values: Tensor) -> Tensor:
    """(B, K) sum of per-token (B, N_p) values over each surviving token's group; what is evicted is dropped."""
    return _group_sum(arrays_for(plan.keep), plan, values)


def _group_sum(xp: Any, plan: Plan, values: Tensor) -> Tensor:
    array = xp.read(values)
    total = xp.take(array, xp.read(plan.keep))
    if plan.target is not None:
        total = xp.add_at(total, xp.read(plan.target), xp.take(array, xp.read(plan.removed)), plan.all_merge)
    summed: Tensor = xp.write(total)
    return summed


def follow(plan: Plan, provenance: Tensor) -> Tensor:
    """Provenance after the plan: where each original patch is now, or EVICTED."""
    moved = plan.slots().gather(1, _valid(provenance))
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
    full = take_rows(patches, _valid(state.provenance))
    fill = weighted_mean(patches, state.size)
    return torch.cat([prefix, torch.where((state.provenance < 0).unsqueeze(-1), fill.unsqueeze(1), full)], 1)


def _valid(index: Tensor) -> Tensor:
    """Indices with EVICTED as 0; TensorRT clips no integers."""
    return torch.where(index < 0, 0, index)


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
    if device_type != "meta" and torch.is_autocast_enabled(device_type):
        return torch.autocast(device_type, enabled=False)
    return nullcontext()


def _first_rows(xp: Any, like: Any, stride: int) -> Any:
    """(B, 1) flat index of each image's first row, `stride` rows per image."""
    return (xp.arange(0, like.shape[0], 1, like) * stride)[:, None]


def _add_rows(xp: Any, base: Tensor, plan: Plan, rows: Tensor, prefix: int) -> Tensor:
    """Add (B, R, C) rows to their targets among (B, prefix + K, C), which may be overwritten.

    NumPy's side touches R rows only. PyTorch's is a product with the membership matrix: deterministic on CUDA, and
    plain MatMul where TensorRT lacks scatter with reduction.
    """
    assert plan.target is not None
    if xp is TorchArrays:
        return base + torch.bmm(F.pad(_membership(plan), (0, 0, prefix, 0)).to(base.dtype), rows)
    target = xp.read(plan.target)
    if not plan.all_merge:
        rows = torch.where(xp.write(target >= 0).unsqueeze(-1), rows, 0.0)
        target = xp.at_least(target, 0)
    flat = xp.write((target + _first_rows(xp, target, base.shape[1]) + prefix).reshape(-1))
    base.view(-1, base.shape[2]).index_add_(0, flat, rows.reshape(-1, base.shape[2]))
    return base


def _membership(plan: Plan) -> Tensor:
    """(B, K, R) 1 where removed token r merges into survivor k; an evicted token's column is all zero."""
    assert plan.target is not None
    slots = torch.arange(plan.num_kept, device=plan.keep.device)
    return (plan.target[:, None, :] == slots[:, None]).to(torch.float32)


def _next_size(xp: Any, plan: Plan, size: Tensor | None) -> Tensor | None:
    if size is not None:
        return _group_sum(xp, plan, size)
    return None if plan.target is None else _group_count(xp, plan)


def _group_count(xp: Any, plan: Plan) -> Tensor:
    """(B, K) members of each group, float32."""
    ones = xp.ones(tuple(plan.keep.shape), plan.keep)
    count: Tensor = xp.write(xp.add_at(ones, xp.read(plan.target), 1.0, plan.all_merge))
    return count


def _renormalised(xp: Any, plan: Plan, attention: Tensor) -> Tensor:
    """A_cls carried through the plan: summed over what merged, dropped with what was evicted, renormalised."""
    carried = xp.read(_group_sum(xp, plan, attention))
    total = xp.at_least(xp.sum(carried), torch.finfo(attention.dtype).tiny)
    shares: Tensor = xp.write(carried / total)
    return shares


def _merge(xp: Any, plan: Plan, x: Tensor, state: TokenState, size: Tensor | None) -> Tensor:
    prefix, keep = state.num_prefix, xp.read(plan.keep)
    kept = _rows(xp, x, _with_prefix(xp, keep, prefix))
    if plan.target is None:
        return kept
    wide = torch.promote_types(x.dtype, torch.float32)  # half precision would lose small shares
    slot = xp.read(plan.target) if plan.all_merge else xp.at_least(xp.read(plan.target), 0)
    both = _rows(xp, x, xp.join(xp.read(plan.removed), xp.take(keep, slot)) + prefix).to(wide)
    gone, destination = both.chunk(2, 1)
    if plan.blend == "max":
        return _merge_max(plan, kept, gone, prefix)
    # A group's mean is its destination plus each member's share of the way to it, so only destinations change.
    step = (gone - destination) * xp.write(_shares(xp, plan, slot, state.size, size, wide)).unsqueeze(-1)
    if plan.blend in ("mlerp", "mlerp_dst"):
        own = kept[:, prefix:].norm(dim=-1, dtype=wide)
        merged = _add_rows(xp, kept.to(wide, copy=True), plan, step, prefix)
        return _rescale(plan, merged, own, gone, prefix).to(x.dtype)
    return _add_rows(xp, kept.to(wide), plan, step, prefix).to(x.dtype)


def _with_prefix(xp: Any, keep: Any, prefix: int) -> Any:
    """Rows of the whole sequence: the prefix tokens, then the survivors."""
    return xp.join(xp.repeat_rows(xp.arange(0, prefix, 1, keep), keep), keep + prefix) if prefix else keep


def _shares(xp: Any, plan: Plan, slot: Any, size: Tensor | None, next_size: Tensor | None, dtype: torch.dtype) -> Any:
    """(B, R) weight of each removed token over the total weight of its group."""
    weight = plan.weight if plan.blend == "weight" else size if plan.blend == "size" else None
    if plan.blend == "size":
        total = next_size
    else:
        total = _group_count(xp, plan) if weight is None else _group_sum(xp, plan, weight)
    assert total is not None
    reached = xp.cast(xp.take(xp.read(total), slot), dtype)
    own = 1.0 if weight is None else xp.cast(xp.take(xp.read(weight), xp.read(plan.removed)), dtype)
    return own / reached


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
