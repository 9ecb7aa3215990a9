"""Second half of the paper's procedure: tau and evict_ratio, by rho_off and by rho_s of the merge pool."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product

import torch
from torch import Tensor, nn

from catis.core.block import BlockRecord
from catis.core.reduction import Reduction
from catis.core.schedule import Schedule
from catis.core.view import BlockView
from catis.diagnostics.consistency import key_cosine, pairwise_consistency, unary_signals
from catis.diagnostics.correlation import OffDiagonal
from catis.diagnostics.estimates import BlockMeans, band_blocks, bands
from catis.diagnostics.report import PerBlock
from catis.diagnostics.verdict import EXCESS
from catis.health.conclusion import off_rise, telling_block
from catis.health.probes import Observer, watch
from catis.methods.catis import Catis
from catis.tuning.pairs import paired_batches

TAU = (0.1, 0.25, 0.5, 1.0, 1.5)
EVICT_RATIO = (0.25, 0.5, 0.75)
OCCUPIED = 0.5
"""Share of the images in which P and E must both hold a token, in every deep block."""


@dataclass(frozen=True)
class TriageRow:
    """One pair of tau and evict_ratio that was tried."""

    tau: float  # triage radius
    evict_ratio: float  # share of r that eviction may take
    pool: float  # rho_s of pairs inside M, mean over blocks
    rho_off: float  # of the reduced model, after the deepest block that leaves enough tokens to tell
    chance: float  # what independent features would show on as many tokens
    rise: float  # rho_off over what vanilla's features show on as many tokens
    occupied: float  # share of the images with tokens in both P and E, in the deep block where it is lowest

    @property
    def excess(self) -> float:
        """rho_off over chance."""
        return self.rho_off - self.chance

    @property
    def in_envelope(self) -> bool:
        """Whether rho_off stays where vanilla's would be."""
        return self.rise <= EXCESS

    @property
    def allowed(self) -> bool:
        """Whether the paper's two conditions hold."""
        return self.in_envelope and self.occupied >= OCCUPIED


def best_triage(rows: Sequence[TriageRow]) -> TriageRow:
    """The highest pool rho_s among the allowed rows, then the lowest rise; evict_ratio alone does not move the pool.

    Where P or E stays empty with every tau, the rows that fill them in most images are asked; where every row leaves
    the envelope, the lowest rise wins.

    Example:
        >>> rows = [TriageRow(0.5, 0.5, 0.6, 0.9, 0.1, 0.3, 1.0), TriageRow(1.0, 0.5, 0.4, 0.2, 0.1, 0.0, 1.0)]
        >>> best_triage(rows).tau
        1.0
    """
    healthy = [row for row in rows if row.in_envelope]
    if not healthy:
        return min(rows, key=lambda row: math.inf if math.isnan(row.rise) else row.rise)
    most = max(row.occupied for row in healthy)
    return max((row for row in healthy if row.occupied >= min(most, OCCUPIED)), key=_preference)


def _preference(row: TriageRow) -> tuple[float, float]:
    return (-1.0 if math.isnan(row.pool) else row.pool, -row.rise)


def pool_consistency(
    model: nn.Module, clean: Tensor, damaged: Tensor, theta: Catis, batch_size: int = 16
) -> dict[float, float]:
    """rho_s of pairs inside M for every tau, mean over the blocks of the vanilla model, in one pass."""
    means = BlockMeans()

    def record(block: BlockRecord) -> None:
        assert block.view is not None
        n, keys = len(block.tokens) // 2, block.view.metric().float()
        score = _score(block.view, theta)[:n].abs()
        whole, corrupted = key_cosine(keys[:n]), key_cosine(keys[n:])
        for tau in TAU:
            inside = pairwise_consistency(whole, corrupted, score <= tau).pool  # M of Eq. triage
            assert inside is not None
            means.update(f"{tau}", block.index, inside)

    for pair in paired_batches(model, clean, damaged, batch_size):
        watch(model, Reduction(Observer()), torch.cat(pair), record)
    return {tau: bands(means[f"{tau}"])["all"] for tau in TAU}


def try_triage(
    model: nn.Module, batches: Sequence[Tensor], theta: Catis, schedule: Schedule, vanilla: PerBlock, pool: float
) -> TriageRow:
    """Run the reduced model on clean images, watched.

    Args:
        model: A supported model, in eval mode.
        batches: Prepared clean images.
        theta: The Theta to try.
        schedule: Tokens to remove.
        vanilla: rho_off of the vanilla model (`OffDiagonal.compute`).
        pool: rho_s inside M at this tau.
    """
    off, means = OffDiagonal(), BlockMeans()

    def record(block: BlockRecord) -> None:
        assert block.view is not None
        off.update(block.index, block.tokens[:, block.state.num_prefix :])
        score = _score(block.view, theta)
        both = (score > theta.tau).any(1) & (score < -theta.tau).any(1)  # P and E of Eq. triage
        means.update("occupied", block.index, both.double())

    for batch in batches:
        watch(model, Reduction(theta, schedule), batch, record)
    measured, occupied = off.compute(), means["occupied"]
    last = telling_block(measured)
    lowest = min(occupied[deep].mean for deep in band_blocks(len(occupied))["deep"])
    rho_off, chance = measured["rho_off"][last].mean, measured["chance"][last].mean
    return TriageRow(theta.tau, theta.evict_ratio, pool, rho_off, chance, off_rise(vanilla, measured), lowest)


def grid_of(theta: Catis) -> list[Catis]:
    """The same signal with every tau and evict_ratio."""
    return [replace(theta, tau=tau, evict_ratio=ratio) for tau, ratio in product(TAU, EVICT_RATIO)]


def _score(view: BlockView, theta: Catis) -> Tensor:
    return unary_signals(view, view.cls_attention(), theta.gamma, theta.w_cls, theta.l_start)["fused"]
