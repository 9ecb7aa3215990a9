"""What a reduced model did to each patch in one block."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from catis.core.block import BlockRecord
from catis.core.plan import EVICTED
from catis.core.state import TokenState


@dataclass(frozen=True)
class BlockTrace:
    """One block of a trace. Masks and scores are over the patch tokens that entered the block.

    Attributes:
        index: Index of the block.
        tokens_in: Patch tokens that entered.
        tokens_left: Patch tokens that left.
        scores: What the method saw, each (B, tokens_in): always "score"; for CATIS also "s_nf" and "s_cls".
        threshold: (B,) where the method cut: tau for CATIS, the weakest edge or energy taken for the others; None in
            a block that removed nothing.
        kept: (B, tokens_in) tokens that stayed (a token that others merged into stays).
        merged: (B, tokens_in) tokens that merged into another.
        evicted: (B, tokens_in) tokens that are gone.
        state: Sizes and provenance after the block.
    """

    index: int
    tokens_in: int
    tokens_left: int
    scores: Mapping[str, Tensor]
    threshold: Tensor | None
    kept: Tensor
    merged: Tensor
    evicted: Tensor
    state: TokenState

    @property
    def removed(self) -> int:
        """Patch tokens really removed, after the budget contract."""
        return self.tokens_in - self.tokens_left

    @property
    def size(self) -> Tensor:
        """(B, tokens_left) original patches that each token stands for."""
        return torch.ones(self.kept.shape[0], self.tokens_left) if self.state.size is None else self.state.size

    @property
    def provenance(self) -> Tensor:
        """(B, original patches) index of the token that holds each patch, -1 once evicted."""
        assert self.state.provenance is not None
        return self.state.provenance

    @property
    def row(self) -> list[str]:
        """Its line in a table: tokens in and left, and what merged and what was evicted, mean over images."""
        merged, evicted = (f"{mask.float().sum(-1).mean().item():.1f}" for mask in (self.merged, self.evicted))
        counts = (str(self.index + 1), str(self.tokens_in), str(self.tokens_left))
        return [*counts, merged, evicted, str(int(self.size.max()))]

    @classmethod
    def of(cls, record: BlockRecord) -> BlockTrace:
        """What a block told when it had run."""
        plan, state = record.plan, record.state
        left = record.tokens.shape[1] - state.num_prefix
        if plan is None:
            kept = torch.ones(record.tokens.shape[0], left, dtype=torch.bool, device=record.tokens.device)
            return cls(record.index, left, left, {}, None, kept, ~kept, ~kept, state)
        slots = plan.slots()
        kept = torch.zeros_like(slots, dtype=torch.bool).scatter(1, plan.keep, True)
        evicted = slots == EVICTED
        scores = {name: values for name, values in plan.notes.items() if name != "threshold"}
        threshold = plan.notes.get("threshold")
        return cls(record.index, slots.shape[1], left, scores, threshold, kept, ~kept & ~evicted, evicted, state)
