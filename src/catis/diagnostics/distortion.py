"""Distortion: how far a reduced model's feature is from the vanilla one after each block, the measurable Delta(l).

Also of the two damage channels apart: a recorded reduction run again with only its merges, or only its evictions.
A reduced run's decisions are kept as provenance over the original patches. Replaying them on the full grid needs no
ragged shapes: a merged token is the mean written back to all its patches (as many equal keys are what proportional
attention's log(size) stands for), an evicted patch is hidden from attention. With both channels on this is the reduced
run itself, for size-weighted merges, proportional attention and positions that are not rotary; other blends are
replayed as the size-weighted mean.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor

from catis.core.block import BlockRecord, BlockRunner, BlockStep, Course
from catis.core.execute import weighted_mean
from catis.core.method import Method
from catis.core.parts import BlockParts
from catis.core.plan import EVICTED, Plan
from catis.core.state import TokenState
from catis.diagnostics.estimates import BlockMetric

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


class Distortion(BlockMetric):
    """Accumulates the distance from vanilla per block, and what the method merged and evicted there.

    Example:
        >>> metric = Distortion()
        >>> metric.update(0, torch.eye(3), torch.eye(3))
        >>> metric.compute()["distortion"][0].mean
        0.0
    """

    shown, label = ("distortion",), "1 - cosine to vanilla"

    def __init__(self) -> None:
        super().__init__()
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

    def leave_one_out(self) -> Tensor:
        """(groups, L) mean distortion with one group of images left out, for jackknife intervals of a fit."""
        sums, counts = torch.stack([self._groups[block] for block in sorted(self._groups)], 1)
        used = counts[0] > 0
        totals, number = sums.sum(1, keepdim=True), counts.sum(1, keepdim=True)
        left = (number - counts)[:, used]
        means: Tensor = ((totals - sums)[:, used] / left.clamp_min(1)).masked_fill(left == 0, torch.nan).T
        return means


@dataclass
class Decisions:
    """What a reduced run did to every original patch, block by block; `add` is a recorder."""

    # Per block, (B, patches) a patch that stands for the group this patch is merged with.
    home: list[Tensor] = field(default_factory=list)
    evicted: list[Tensor] = field(default_factory=list)  # per block, (B, patches) bool, whether the patch is gone

    def add(self, block: BlockRecord) -> None:
        """Take one block's decisions."""
        provenance = block.state.provenance
        assert provenance is not None, "a watched run always tracks provenance"
        gone = provenance < 0
        patch = torch.arange(provenance.shape[1], device=provenance.device).expand_as(provenance)
        first = torch.full_like(provenance, provenance.shape[1])
        first = first.scatter_reduce(1, provenance.clamp_min(0), patch.masked_fill(gone, patch.shape[1]), "amin")
        before = self.home[-1] if self.home else patch
        # A group that is evicted keeps the shape it had: the merge channel still needs it.
        self.home.append(torch.where(gone, before, first.gather(1, provenance.clamp_min(0))))
        self.evicted.append(gone)


@dataclass(frozen=True)
class Replay(Method):
    """Runs recorded decisions on the full grid, with either channel on or off."""

    name: ClassVar[str] = "replay"
    decisions: Decisions = field(default_factory=Decisions)  # of the same batch of images
    merge: bool = True  # whether merges happen
    evict: bool = True  # whether evictions happen

    @property
    def block_runner(self) -> BlockRunner:
        """Blocks on the full grid."""
        return self._run_block

    def _run_block(self, parts: BlockParts, x: Tensor, state: TokenState, course: Course, index: int) -> BlockStep:
        """One block on all patches; sizes become 1 for present and 0 for evicted patches."""
        features = parts.norm(x)
        projection = parts.project(features, state.positions)
        bias = state.attention_bias(projection.query.dtype)  # log(0) hides what was evicted
        residual = parts.add_attention(x, parts.output(parts.mix(projection, bias), features))
        if self.merge:
            residual = _merge(residual, self.decisions.home[index], state.num_prefix)
        if self.evict:
            state = state.with_size((~self.decisions.evicted[index]).float())
        return BlockStep(parts.add_mlp(residual), state)


def _merge(x: Tensor, home: Tensor, num_prefix: int) -> Tensor:
    """Give every patch the mean of its group."""
    prefix, patches = x[:, :num_prefix], x[:, num_prefix:]
    index = home.unsqueeze(-1).expand_as(patches)
    total = torch.zeros_like(patches).scatter_add(1, index, patches)
    count = F.one_hot(home, home.shape[1]).sum(1).clamp_min(1).to(x.dtype)
    return torch.cat([prefix, (total / count.unsqueeze(-1)).gather(1, index)], 1)
