"""Distortion: how far a reduced model's feature is from the vanilla one after each block, the measurable Delta(l)."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from catis.core.block import BlockRecord
from catis.core.execute import weighted_mean
from catis.core.plan import EVICTED, Plan
from catis.diagnostics.estimates import BlockMeans, Estimate, draw_blocks

GROUPS = 20
"""Images are dealt to this many groups in turn, whose means give a jackknife interval in constant memory."""


def summary_feature(block: BlockRecord, has_cls: bool) -> Tensor:
    """(B, C) CLS token after the block, or the mean of the patch tokens weighted by size in a model without CLS."""
    if has_cls:
        return block.tokens[:, 0]
    return weighted_mean(block.tokens[:, block.state.num_prefix :], block.state.size)


def cosine_distance(reference: Tensor, feature: Tensor) -> Tensor:
    """(B,) 1 - cosine of two (B, C), in float64 as half the squared distance of unit vectors: exactly 0 for equals.

    Example:
        >>> cosine_distance(torch.tensor([[1.0, 0.0]]), torch.tensor([[0.0, 2.0]]))
        tensor([1.], dtype=torch.float64)
    """
    a, b = F.normalize(reference.double(), dim=-1), F.normalize(feature.double(), dim=-1)
    return (a - b).square().sum(-1) / 2


def channel_amounts(plan: Plan | None) -> tuple[float, float]:
    """Tokens merged and evicted per image by one block's plan."""
    if plan is None:
        return 0.0, 0.0
    removed = plan.removed.shape[1]
    evicted = float(removed) if plan.target is None else float((plan.target == EVICTED).sum(1).double().mean())
    return removed - evicted, evicted


class Distortion:
    """Accumulates the distance from vanilla per block, and what the method merged and evicted there.

    Example:
        >>> metric = Distortion()
        >>> metric.update(0, torch.eye(3), torch.eye(3))
        >>> metric.compute()["distortion"][0].mean
        0.0
    """

    def __init__(self) -> None:
        self._means = BlockMeans()
        self._groups: dict[int, Tensor] = {}
        self._seen: dict[int, int] = {}

    def update(self, block: int, reference: Tensor, feature: Tensor, amounts: tuple[float, float] = (0.0, 0.0)) -> None:
        """Add (B, C) vanilla and reduced features after a block, and its (merged, evicted) tokens per image."""
        distance = cosine_distance(reference, feature)
        self._means.update("distortion", block, distance)
        for name, amount in zip(("merged", "evicted"), amounts, strict=True):
            self._means.update(name, block, torch.full_like(distance, amount))
        start = self._seen.get(block, 0)
        group = (torch.arange(len(distance), device=distance.device) + start) % GROUPS
        sums = self._groups.setdefault(block, torch.zeros(2, GROUPS, dtype=torch.float64))
        sums.index_add_(1, group.cpu(), torch.stack([distance, torch.ones_like(distance)]).cpu())
        self._seen[block] = start + len(distance)

    def compute(self) -> dict[str, list[Estimate]]:
        """Per block: "distortion", "merged" and "evicted"."""
        return self._means.compute()

    def leave_one_out(self) -> Tensor:
        """(groups, L) mean distortion with one group of images left out, for jackknife intervals of a fit."""
        sums, counts = torch.stack([self._groups[block] for block in sorted(self._groups)], 1)
        used = counts[0] > 0
        totals, number = sums.sum(1, keepdim=True), counts.sum(1, keepdim=True)
        left = (number - counts)[:, used]
        means: Tensor = ((totals - sums)[:, used] / left.clamp_min(1)).masked_fill(left == 0, torch.nan).T
        return means

    def plot(self, ax: Any | None = None) -> Any:
        """Distortion over depth; returns the axes."""
        return draw_blocks({"distortion": self.compute()["distortion"]}, "1 - cosine to vanilla", ax)
