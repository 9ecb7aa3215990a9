"""The executor: applies any Plan to features, sizes, provenance, CLS attention and rotary positions."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext

import torch
import torch.nn.functional as F
from torch import Tensor

from catis.core.accelerator import Accelerator, Moved, is_eager
from catis.core.graph_merge import merge_in_graph
from catis.core.norms import norms, with_norms
from catis.core.plan import EVICTED, Plan
from catis.core.rows import flat_index, take_rows
from catis.core.signals import as_shares
from catis.core.state import TokenState


def execute(
    plan: Plan, x: Tensor, state: TokenState, accelerator: Accelerator | None = None
) -> tuple[Tensor, TokenState]:
    """Apply a plan to the tokens and to everything that travels with them.

    Args:
        plan: What to do with the N_p patch tokens.
        x: (B, N, C) tokens, prefix first.
        state: Their companions.
        accelerator: Tried first, where there is one.

    Returns:
        (B, N - R, C) tokens and their companions.

    Example:
        >>> plan = Plan(torch.tensor([[0, 2]]), torch.tensor([[1]]), torch.tensor([[0]]))
        >>> x, state = execute(plan, torch.tensor([[[1.0], [3.0], [9.0]]]), TokenState(num_prefix=0))
        >>> x.flatten().tolist(), state.size.tolist()
        ([2.0, 9.0], [[2.0, 1.0]])
    """
    moved = None if accelerator is None else accelerator.execute(plan, x, state)
    if moved is None and torch.compiler.is_exporting():
        moved = merge_in_graph(plan, x, state)
    if moved is None:
        with _full_precision(x.device.type):
            moved = _move(plan, x, state)
    provenance = None if state.provenance is None else follow(plan, state.provenance)
    positions = None if state.positions is None else take_rows(state.positions, plan.keep)
    offset = None if state.offset is None else _next_offset(x, moved.tokens, state, provenance)
    return moved.tokens, TokenState(
        state.num_prefix, moved.size, moved.cls_attention, provenance, positions, moved.log_size, offset,
        moved.size_column,
    )  # fmt: skip


def follow(plan: Plan, provenance: Tensor) -> Tensor:
    """Provenance after the plan: where each original patch is now, or EVICTED."""
    moved = plan.slots().gather(1, _valid(provenance))
    return torch.where(provenance < 0, EVICTED, moved)


def _next_offset(x: Tensor, merged: Tensor, state: TokenState, provenance: Tensor | None) -> Tensor:
    """(B, patches at the start, C) offsets after a plan: a patch was where its token was, and is where that is now."""
    assert state.offset is not None
    assert state.provenance is not None
    assert provenance is not None
    before = take_rows(x[:, state.num_prefix :], _valid(state.provenance))
    return state.offset + before - take_rows(merged[:, state.num_prefix :], _valid(provenance))


def unmerge(x: Tensor, state: TokenState) -> Tensor:
    """Give every original patch its token back: (B, prefix + patches at the start, C).

    A patch that was merged gets its group's vector; with offsets, the last vector of its own plus what its group
    changed by since, which is nearer to vanilla's (docs/models.md) but holds in the residual stream only, before any
    norm. A patch that was evicted gets the mean of the surviving patch tokens, weighted by size, so that without
    offsets an average pool over the full grid is the size-weighted pool of the survivors.

    Example:
        >>> plan = Plan(torch.tensor([[0, 2]]), torch.tensor([[1]]), torch.tensor([[0]]))
        >>> start = TokenState.start(num_prefix=0, num_patches=3, batch=1, track=True)
        >>> unmerge(*execute(plan, torch.tensor([[[1.0], [3.0], [9.0]]]), start)).flatten().tolist()
        [2.0, 2.0, 9.0]
    """
    assert state.provenance is not None, "unmerge needs a state that tracked provenance"
    prefix, patches = x[:, : state.num_prefix], x[:, state.num_prefix :]
    full = take_rows(patches, _valid(state.provenance))
    if state.offset is not None:
        full = (full + state.offset).to(x.dtype)
    fill = weighted_mean(patches, state.size)
    return torch.cat([prefix, torch.where((state.provenance < 0).unsqueeze(-1), fill.unsqueeze(1), full)], 1)


def in_grid_order(x: Tensor, state: TokenState) -> Tensor:
    """(B, N, C) tokens, the patch tokens ordered by the first patch that each holds.

    Example:
        >>> plan = Plan(torch.tensor([[2, 1]]), torch.tensor([[0]]), torch.tensor([[1]]))
        >>> start = TokenState.start(num_prefix=0, num_patches=3, batch=1, track=True)
        >>> in_grid_order(*execute(plan, torch.tensor([[[1.0], [3.0], [9.0]]]), start)).flatten().tolist()
        [2.0, 9.0]
    """
    assert state.provenance is not None, "the order of the grid needs a state that tracked provenance"
    prefix, patches = x[:, : state.num_prefix], x[:, state.num_prefix :]
    batch, count = state.provenance.shape
    place = torch.arange(count, device=x.device).expand(batch, -1)
    held = torch.where(state.provenance < 0, patches.shape[1], state.provenance)  # a spare column for what was evicted
    first = place.new_full((batch, patches.shape[1] + 1), count).scatter_reduce(1, held, place, "amin")[:, :-1]
    return torch.cat([prefix, take_rows(patches, first.argsort(dim=-1, stable=True))], 1)


def weighted_mean(tokens: Tensor, weight: Tensor | None) -> Tensor:
    """(B, C) mean of (B, N, C) tokens weighted by (B, N), in float32 for half-precision tokens."""
    if weight is None:
        return tokens.mean(1)
    wide = torch.promote_types(tokens.dtype, torch.float32)
    share = weight.to(wide) / weight.sum(-1, keepdim=True)
    with _full_precision(tokens.device.type):
        return torch.bmm(share.unsqueeze(1), tokens.to(wide)).squeeze(1).to(tokens.dtype)


def group_sum(plan: Plan, values: Tensor) -> Tensor:
    """(B, K) sum of per-token (B, N_p) values over each surviving token's group; what is evicted is dropped."""
    own = values.gather(1, plan.keep)
    if plan.target is None:
        return own
    gone = values.gather(1, plan.removed)
    return _add_to_groups(plan, own.unsqueeze(-1), gone.unsqueeze(-1)).squeeze(-1)


def _move(plan: Plan, x: Tensor, state: TokenState) -> Moved:
    """Tokens, sizes and A_cls after the plan."""
    size = _next_size(plan, state.size)
    attention = None if plan.cls_attention is None else as_shares(group_sum(plan, plan.cls_attention))
    kept = take_rows(x, plan.kept_rows(state.num_prefix))
    if plan.target is not None:
        wide = torch.promote_types(x.dtype, torch.float32)  # half precision would lose small shares
        gone = take_rows(x, plan.removed + state.num_prefix)
        kept = _blend(plan, kept.to(wide), gone.to(wide), state, size).to(x.dtype)
    return Moved(kept, size, attention)


def _next_size(plan: Plan, size: Tensor | None) -> Tensor | None:
    if size is not None:
        return group_sum(plan, size)
    if plan.target is None:
        return None
    return group_sum(plan, _ones(plan))


def _ones(plan: Plan) -> Tensor:
    """(B, N_p) float32 ones."""
    batch, patches = plan.keep.shape[0], plan.keep.shape[1] + plan.removed.shape[1]
    return torch.ones(batch, patches, dtype=torch.float32, device=plan.keep.device)


def _blend(plan: Plan, kept: Tensor, gone: Tensor, state: TokenState, size: Tensor | None) -> Tensor:
    """(B, P + K, C) survivors after (B, R, C) removed tokens have merged into them; `kept` may be overwritten."""
    prefix, rows = state.num_prefix, _slot(plan) + state.num_prefix
    before = _norms_before(kept) if plan.restores else None
    if plan.blend == "max":
        evicted = (_target(plan) < 0).unsqueeze(-1)
        candidates = gone.masked_fill(evicted, float("-inf"))
        return kept.scatter_reduce(1, rows.unsqueeze(-1).expand_as(gone), candidates, "amax")
    # A group's mean is its destination plus each member's share of the way to it, so only destinations change.
    destination = take_rows(kept, rows)
    shares = _shares(plan, state.size, size, kept.dtype)
    merged = _add_to_groups(plan, kept, (gone - destination) * shares, prefix)
    if before is not None:
        longer = (norms(gone) - take_rows(before, rows)) * shares
        return with_norms(merged, _add_to_groups(plan, before, longer, prefix))
    if plan.blend in ("mlerp", "mlerp_dst"):
        return merged * F.pad(_mlerp_scale(plan, merged[:, prefix:], destination, gone), (0, 0, prefix, 0), value=1.0)
    return merged


def _norms_before(kept: Tensor) -> Tensor:
    """(B, P + K, 1) norms of the survivors, which are about to be overwritten: a backward pass would miss them."""
    return norms(kept.clone()).clone() if kept.requires_grad else norms(kept)


def _shares(plan: Plan, size: Tensor | None, next_size: Tensor | None, dtype: torch.dtype) -> Tensor:
    """(B, R, 1) weight of each removed token over the total weight of its group."""
    weight, total = size, next_size
    if plan.blend != "size":
        weight = plan.weight if plan.blend == "weight" else None
        total = group_sum(plan, _ones(plan) if weight is None else weight)
    assert total is not None
    reached = total.to(dtype).gather(1, _slot(plan))
    own = 1.0 if weight is None else weight.to(dtype).gather(1, plan.removed)
    return (own / reached).unsqueeze(-1)


def _mlerp_scale(plan: Plan, merged: Tensor, destination: Tensor, gone: Tensor) -> Tensor:
    """(B, K, 1) factors that give merged vectors the length of their longest member; 1 where nothing merged."""
    members = _membership(plan)
    own = torch.where(members, destination.norm(dim=-1)[:, None, :], 0.0).amax(-1)
    longest = torch.maximum(own, torch.where(members, gone.norm(dim=-1)[:, None, :], 0.0).amax(-1))
    length = own if plan.blend == "mlerp_dst" else merged.norm(dim=-1)
    return torch.where(members.any(-1) & (length > 0), longest / length, 1.0).unsqueeze(-1)


def _add_to_groups(plan: Plan, kept: Tensor, step: Tensor, num_prefix: int = 0) -> Tensor:
    """(B, P + K, D) survivors plus the (B, R, D) steps of what merges into each; evicted tokens add nothing.

    The one place where rows meet. `kept` is the caller's own, and is overwritten on CPU, where adding r rows is
    fastest. Elsewhere it is a product with the membership matrix: deterministic on CUDA, and plain MatMul where
    TensorRT lacks scatter with reduction.
    """
    if not plan.all_merge:
        step = torch.where((_target(plan) >= 0).unsqueeze(-1), step, 0.0)
    if kept.device.type == "cpu" and is_eager():
        rows = flat_index(_slot(plan) + num_prefix, kept.shape[1])
        kept.view(-1, kept.shape[2]).index_add_(0, rows, step.reshape(-1, step.shape[2]))
        return kept
    members = F.pad(_membership(plan).to(torch.float32), (0, 0, num_prefix, 0))
    return kept + torch.bmm(members.to(kept.dtype), step)


def _target(plan: Plan) -> Tensor:
    assert plan.target is not None
    return plan.target


def _slot(plan: Plan) -> Tensor:
    """(B, R) place among the survivors; 0 for an evicted token."""
    return _target(plan) if plan.all_merge else _valid(_target(plan))


def _membership(plan: Plan) -> Tensor:
    """(B, K, R) whether removed token r merges into survivor k; an evicted token's column is all false."""
    slots = torch.arange(plan.num_kept, device=plan.keep.device)
    return _target(plan)[:, None, :] == slots[:, None]


def _valid(index: Tensor) -> Tensor:
    """Indices with EVICTED as 0; TensorRT clips no integers."""
    return torch.where(index < 0, 0, index)


def _full_precision(device_type: str) -> AbstractContextManager[object]:
    # Sizes above 256 are not exact in bfloat16, so autocast must not touch the sums; entered only when it would.
    if device_type != "meta" and torch.is_autocast_enabled(device_type):
        return torch.autocast(device_type, enabled=False)
    return nullcontext()
