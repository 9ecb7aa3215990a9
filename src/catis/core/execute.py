"""The one executor: applies any Plan to features, sizes, provenance, CLS attention and rotary positions."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext

import torch
from torch import Tensor

from catis.core.arrays import NumpyArrays, arrays_for
from catis.core.flat_moves import FlatMoves
from catis.core.plan import EVICTED, Plan
from catis.core.rows import take_rows
from catis.core.state import TokenState
from catis.core.static_moves import StaticMoves
from catis.native.library import is_plain
from catis.native.merge import BLENDS, merge

__all__ = ["execute", "follow", "group_sum", "unmerge", "weighted_mean"]


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
    if state.kernels is not None and plan.blend in BLENDS and is_plain(x):
        indices = (plan.keep, plan.removed, plan.target)
        values = (state.size, plan.weight, plan.cls_attention)
        x, size, log_size, attention = merge(state.kernels, indices, plan.blend, x, state.num_prefix, *values)
    else:
        log_size = None
        with _full_precision(x.device.type):
            x, size, attention = _move(plan, x, state)
    provenance = None if state.provenance is None else follow(plan, state.provenance)
    positions = None if state.positions is None else take_rows(state.positions, plan.keep)
    return x, TokenState(state.num_prefix, size, attention, provenance, positions, log_size, state.kernels)


def _move(plan: Plan, x: Tensor, state: TokenState) -> tuple[Tensor, Tensor | None, Tensor | None]:
    """Tokens, sizes and A_cls after the plan, by array operations."""
    moves = _moves(plan, state.num_prefix)
    size = _next_size(moves, plan, state.size)
    attention = None if plan.cls_attention is None else _carried(moves, plan.cls_attention)
    return _merge(moves, plan, x, state.size, size), size, attention


def _moves(plan: Plan, num_prefix: int) -> FlatMoves | StaticMoves:
    """How rows are moved here: by flat indices on plain CPU tensors, with static shapes everywhere else."""
    return (FlatMoves if arrays_for(plan.keep) is NumpyArrays else StaticMoves)(plan, num_prefix)


def group_sum(plan: Plan, values: Tensor) -> Tensor:
    """(B, K) sum of per-token (B, N_p) values over each surviving token's group; what is evicted is dropped."""
    return _moves(plan, 0).group_sum(values)


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


def _next_size(moves: FlatMoves | StaticMoves, plan: Plan, size: Tensor | None) -> Tensor | None:
    if size is not None:
        return moves.group_sum(size)
    return None if plan.target is None else moves.group_count()


def _carried(moves: FlatMoves | StaticMoves, attention: Tensor) -> Tensor:
    """A_cls carried through the plan: summed over what merged, dropped with what was evicted, renormalised."""
    carried = moves.group_sum(attention)
    xp = arrays_for(carried)
    values = xp.read(carried)
    shares: Tensor = xp.write(values / xp.at_least(xp.sum(values), torch.finfo(attention.dtype).tiny))
    return shares


def _merge(
    moves: FlatMoves | StaticMoves, plan: Plan, x: Tensor, size: Tensor | None, next_size: Tensor | None
) -> Tensor:
    kept = moves.kept_rows(x)
    if plan.target is None:
        return kept
    wide = torch.promote_types(x.dtype, torch.float32)  # half precision would lose small shares
    kept, gone = kept.to(wide), moves.removed_rows(x).to(wide)
    if plan.blend == "max":
        return moves.maximum(kept, gone).to(x.dtype)
    # A group's mean is its destination plus each member's share of the way to it, so only destinations change.
    destination = moves.destination_rows(kept)
    step = (gone - destination) * _shares(moves, plan, size, next_size, wide)
    merged = moves.add(kept, step)
    if plan.blend in ("mlerp", "mlerp_dst"):
        merged = moves.rescale(merged, destination, gone, by_destination=plan.blend == "mlerp_dst")
    return merged.to(x.dtype)


def _shares(
    moves: FlatMoves | StaticMoves, plan: Plan, size: Tensor | None, next_size: Tensor | None, dtype: torch.dtype
) -> Tensor:
    """Weight of each removed token over the total weight of its group."""
    if plan.blend == "size":
        assert next_size is not None
        return moves.shares(size, next_size, dtype)
    weight = plan.weight if plan.blend == "weight" else None
    return moves.shares(weight, moves.group_count() if weight is None else moves.group_sum(weight), dtype)
