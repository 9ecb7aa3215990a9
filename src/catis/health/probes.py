"""Runs batches through the vanilla and the reduced model with every diagnostic watching: memory for one batch only."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor, nn

from catis import hosts
from catis.core.block import BlockRecord, Recorder
from catis.core.method import Method
from catis.core.reduction import Reduction
from catis.core.schedule import RLike, Schedule
from catis.core.view import BlockView
from catis.diagnostics.consistency import RankingConsistency, unary_signals
from catis.diagnostics.correlation import OffDiagonal
from catis.diagnostics.distortion import (
    Decisions,
    Distortion,
    Replay,
    channel_amounts,
    cosine_distance,
    summary_feature,
)
from catis.diagnostics.estimates import BlockMeans, Estimate
from catis.diagnostics.prediction import FlipCurve
from catis.diagnostics.verdict import share_interval
from catis.hosts.correction import Correction
from catis.methods.catis import Catis
from catis.recipes import Recipe


class Reference(NamedTuple):
    """What the vanilla model says of a batch of clean images."""

    features: Sequence[Tensor]  # per block, (B, C) CLS token or pooled patch tokens
    classes: Tensor | None  # (B,) predicted classes; None for a model without classifier
    num_patches: int


@dataclass(frozen=True)
class Observer(Method):
    """Removes nothing, and carries A_cls from block to block so that s_cls has its momentum everywhere.

    Example:
        >>> Observer().name
        'observer'
    """

    name: ClassVar[str] = "observer"

    def observe(self, view: BlockView) -> Tensor | None:
        """A_cls of every block."""
        return view.cls_attention()


class VanillaProbe:
    """rho_s, Delta F and rho_off of the vanilla model, clean and corrupted images side by side in one pass."""

    def __init__(self, model: nn.Module, theta: Catis) -> None:
        self.model, self.theta = model, theta
        self.facts = hosts.find(model).facts
        self.consistency, self.off = RankingConsistency(theta.tau), OffDiagonal()
        self.n = 0

    def step(self, clean: Tensor, corrupted: Tensor) -> Reference:
        """Add one batch of prepared images and their corrupted versions."""
        n = len(clean)
        features: list[Tensor] = []
        num_patches = 0

        def record(block: BlockRecord) -> None:
            nonlocal num_patches
            assert block.view is not None
            num_patches = block.view.num_patches
            self._compare(block, block.view, n)
            self.off.update(block.index, block.tokens[:n, block.state.num_prefix :])
            features.append(summary_feature(block, self.facts.has_cls)[:n].clone())

        classes = watch(self.model, Reduction(Observer()), torch.cat([clean, corrupted]), record)
        self.n += n
        return Reference(features, None if classes is None else classes[:n], num_patches)

    def _compare(self, block: BlockRecord, view: BlockView, n: int) -> None:
        theta = self.theta
        signals = unary_signals(view, block.state.cls_attention, theta.gamma, theta.w_cls, theta.l_start)
        first, second = ({name: s[part] for name, s in signals.items()} for part in (slice(n), slice(n, None)))
        keys = view.metric()
        self.consistency.update(block.index, keys[:n], keys[n:], first, second)


class ReducedProbe:
    """rho_off, distortion and agreement of a reduced model against the vanilla one.

    Args:
        r: Amount; None removes half of the patch tokens over the whole depth.
        recipe: In place of both; whoever passes it has seen that it fits the model.
        channels: Whether to replay merges and evictions apart where the method does both (two more passes).
    """

    def __init__(
        self,
        model: nn.Module,
        method: Method,
        r: RLike | None,
        *,
        recipe: Recipe | None = None,
        channels: bool = False,
    ) -> None:
        self.model, self._r, self._channels = model, r, channels
        self.method = method if recipe is None else recipe.reduction.method
        self._recipe, self._correction = recipe, None if recipe is None else recipe.correction
        self.facts = hosts.find(model).facts
        self.off, self.distortion, self.flips = OffDiagonal(), Distortion(), FlipCurve()
        self.apart: dict[str, Distortion] = {}
        self._agreement = BlockMeans()
        self.num_patches = 0
        self.schedule = Schedule()

    def step(self, clean: Tensor, reference: Reference) -> None:
        """Add one batch of prepared clean images, with what the vanilla model says of them."""
        self._choose_schedule(reference.num_patches)
        decisions = Decisions()
        last: list[Tensor] = []

        def record(block: BlockRecord) -> None:
            self.off.update(block.index, block.tokens[:, block.state.num_prefix :])
            feature, known = summary_feature(block, self.facts.has_cls), reference.features[block.index]
            self.distortion.update(block.index, known, feature, channel_amounts(block.plan))
            decisions.add(block)
            last[:] = [cosine_distance(known, feature)]

        wanted = Reduction(self.method, self.schedule) if self._recipe is None else self._recipe.reduction
        classes = watch(self.model, wanted, clean, record, self._correction)
        if self._channels and self._does_both():
            self._replay(clean, reference, decisions)
        if classes is not None and reference.classes is not None:
            self._agreement.update("agreement", 0, (classes == reference.classes).double())
            self.flips.update(last[0], classes != reference.classes)

    def agreement(self) -> Estimate | None:
        """Share of images whose class stayed; None for a model without classifier."""
        if not self._agreement.names():
            return None
        share = self._agreement["agreement"][0]
        return Estimate(share.mean, *share_interval(share), share.n)

    @property
    def flipped(self) -> bool:
        """Whether any image changed its class."""
        agreement = self.agreement()
        return agreement is not None and agreement.mean < 1

    def _does_both(self) -> bool:
        totals = self.distortion.compute()
        return all(any(estimate.mean > 0 for estimate in totals[name]) for name in ("merged", "evicted"))

    def _replay(self, clean: Tensor, reference: Reference, decisions: Decisions) -> None:
        for name, merge in (("merge_only", True), ("evict_only", False)):
            metric = self.apart.setdefault(name, Distortion())

            def record(block: BlockRecord, metric: Distortion = metric) -> None:
                feature = summary_feature(block, self.facts.has_cls)
                metric.update(block.index, reference.features[block.index], feature)

            replayed = Reduction(Replay(decisions, merge=merge, evict=not merge))
            watch(self.model, replayed, clean, record, self._correction)

    def _choose_schedule(self, num_patches: int) -> None:
        if self.num_patches:
            return
        self.num_patches = num_patches
        r = max(1, num_patches // (2 * self.facts.depth)) if self._r is None else self._r
        given = Schedule.parse(0 if self.method.own_amounts else r)
        wanted = Reduction(self.method, given) if self._recipe is None else self._recipe.reduction
        self.schedule = hosts.find(self.model).bind(wanted).schedule


def watch(
    model: nn.Module, reduction: Reduction, images: Tensor, record: Recorder, correction: Correction | None = None
) -> Tensor | None:
    """Run the model under a reduction, watched; returns the predicted classes, and leaves the model as it was."""
    handle = hosts.find(model)
    with handle.installed(handle.bind(reduction), correction), handle.watching(record):
        return handle.classes(model(images))
