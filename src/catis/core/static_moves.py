"""Moves the rows of a Plan in PyTorch with shapes that follow from N_p and r alone: CUDA, compile, export."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from catis.core.plan import Plan
from catis.core.rows import take_rows

__all__ = ["StaticMoves"]


class StaticMoves:
    """All R removed tokens, evicted ones with them; a product with the membership matrix drops those.

    The product is deterministic on CUDA, and plain MatMul where TensorRT lacks scatter with reduction.

    Args:
        plan: The plan.
        num_prefix: Prefix tokens P in front of the N_p patch tokens.
    """

    def __init__(self, plan: Plan, num_prefix: int) -> None:
        self._plan, self._prefix = plan, num_prefix

    def kept_rows(self, x: Tensor) -> Tensor:
        """(B, P + K, C) prefix and survivors of (B, N, C)."""
        keep = self._plan.keep + self._prefix
        if self._prefix:
            prefix = torch.arange(self._prefix, device=keep.device).expand(keep.shape[0], -1)
            keep = torch.cat([prefix, keep], -1)
        return take_rows(x, keep)

    def removed_rows(self, x: Tensor) -> Tensor:
        """(B, R, C) removed tokens."""
        return take_rows(x, self._plan.removed + self._prefix)

    def destination_rows(self, kept: Tensor) -> Tensor:
        """(B, R, C) the survivor that each merges into; any one for an evicted token."""
        return take_rows(kept, self._slot() + self._prefix)

    def add(self, kept: Tensor, step: Tensor) -> Tensor:
        """Survivors plus (B, R, C) steps."""
        members = F.pad(self._membership(), (0, 0, self._prefix, 0))
        return kept + torch.bmm(members.to(kept.dtype), step)

    def group_sum(self, values: Tensor) -> Tensor:
        """(B, K) sum of (B, N_p) values over each survivor's group; its own value where nothing merges."""
        own = values.gather(1, self._plan.keep)
        if self._plan.target is None:
            return own
        gone = values.gather(1, self._plan.removed)
        added = torch.bmm(self._membership().to(values.dtype), gone.unsqueeze(-1)).squeeze(-1)
        return own + added

    def group_count(self) -> Tensor:
        """(B, K) members of each survivor's group, float32."""
        return 1.0 + self._membership().sum(-1)

    def shares(self, weight: Tensor | None, total: Tensor, dtype: torch.dtype) -> Tensor:
        """(B, R, 1) weight of each removed token over the total weight of its group."""
        reached = total.gather(1, self._slot()).to(dtype)
        own = torch.ones_like(reached) if weight is None else weight.gather(1, self._plan.removed).to(dtype)
        return (own / reached).unsqueeze(-1)

    def rescale(self, merged: Tensor, destination: Tensor, gone: Tensor, by_destination: bool) -> Tensor:
        """MLERP: merged vectors get the length of their longest member."""
        members = self._membership()
        own = (members * destination.norm(dim=-1)[:, None, :]).amax(-1)
        longest = torch.maximum(own, (members * gone.norm(dim=-1)[:, None, :]).amax(-1))
        length = own if by_destination else merged[:, self._prefix :].norm(dim=-1)
        scale = torch.where(members.any(-1) & (length > 0), longest / length, 1.0)
        return merged * F.pad(scale, (self._prefix, 0), value=1.0).unsqueeze(-1)

    def maximum(self, kept: Tensor, gone: Tensor) -> Tensor:
        """Elementwise maximum of each survivor's group."""
        assert self._plan.target is not None
        index = (self._slot() + self._prefix).unsqueeze(-1).expand_as(gone)
        candidates = gone.masked_fill((self._plan.target < 0).unsqueeze(-1), float("-inf"))
        return kept.scatter_reduce(1, index, candidates, "amax")

    def _slot(self) -> Tensor:
        """(B, R) place among the survivors; 0 for an evicted token, since TensorRT clips no integers."""
        target = self._plan.target
        assert target is not None
        return target if self._plan.all_merge else torch.where(target < 0, 0, target)

    def _membership(self) -> Tensor:
        """(B, K, R) 1 where removed token r merges into survivor k; an evicted token's column is all zero."""
        assert self._plan.target is not None
        slots = torch.arange(self._plan.num_kept, device=self._plan.keep.device)
        return (self._plan.target[:, None, :] == slots[:, None]).to(torch.float32)
