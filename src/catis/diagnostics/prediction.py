"""Predicts r_crit from one probe at one r.

The growth fitted to the probe says how distortion scales with r; the probe's own images say how much of it they can
take before their class changes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy import optimize
from torch import Tensor

from catis.core.budget import removed_from
from catis.core.schedule import Schedule
from catis.diagnostics.amplifier import Channel, Floats, recurrence
from catis.diagnostics.critical import DROP

Feedback = Literal["network", "reduction"]
_LOW, _HIGH, _BINS = -8.0, 0.5, 170


@dataclass(frozen=True)
class Tolerance:
    """P(class changes | final distortion d) = logistic(slope (log10 d - middle)), and the d's it was fitted on."""

    middle: float  # log10 of the distortion at which half the images change class
    slope: float  # steepness
    distances: tuple[float, ...]  # log10 of the probe's distances (bin centres)
    weights: tuple[float, ...]  # share of the images in each

    def disagreement(self, scale: float = 1.0) -> float:
        """Expected share of changed classes when every distortion is `scale` times the probe's."""
        if scale <= 0:
            return 0.0
        at = np.asarray(self.distances) + math.log10(scale)
        return float(np.asarray(self.weights) @ _logistic(self.slope * (at - self.middle)))


class FlipCurve:
    """Accumulates, in constant memory, which final distortions changed the predicted class.

    Example:
        >>> import torch
        >>> curve = FlipCurve()
        >>> curve.update(torch.tensor([0.001, 0.002, 0.3, 0.4]), torch.tensor([False, False, True, True]))
        >>> -2.7 < curve.compute().middle < -0.5
        True
    """

    def __init__(self) -> None:
        self._counts = np.zeros((2, _BINS))

    def update(self, distance: Tensor, flipped: Tensor) -> None:
        """Add (B,) distortions after the last block and whether the class changed."""
        known = ~distance.isnan()
        place = distance[known].double().clamp_min(10.0**_LOW).log10().clamp_max(_HIGH)
        index = ((place - _LOW) / (_HIGH - _LOW) * (_BINS - 1)).round().long().cpu().numpy()
        np.add.at(self._counts[0], index, 1)
        np.add.at(self._counts[1], index, flipped[known].double().cpu().numpy())

    def compute(self) -> Tolerance:
        """Fit the curve. Two made-up images keep it finite: one at 1e-6 that holds, one at 1 that changes."""
        if self._counts[0].sum() == 0:
            raise ValueError("no images were added")
        at = np.linspace(_LOW, _HIGH, _BINS)
        seen, flips = np.append(self._counts[0], [1, 1]), np.append(self._counts[1], [0, 1])
        places = np.append(at, [-6.0, 0.0])
        minimum = optimize.minimize(_loss, np.array([-1.5, 1.0]), args=(places, seen, flips), method="Nelder-Mead")
        used = self._counts[0] > 0
        share = self._counts[0][used] / self._counts[0].sum()
        middle, slope = float(minimum.x[0]), math.exp(float(minimum.x[1]))
        return Tolerance(middle, slope, tuple(at[used].tolist()), tuple(share.tolist()))


def _logistic(x: Floats) -> Floats:
    return 0.5 * (1 + np.tanh(x / 2))


def _loss(parameters: Floats, at: Floats, seen: Floats, flips: Floats) -> float:
    logit = math.exp(min(parameters[1], 6.0)) * (at - parameters[0])
    return float((seen * np.logaddexp(0, logit) - flips * logit).sum())


def steps_seen(amounts: list[float], has_cls: bool) -> list[float]:
    """Operations that the feature has felt after each block.

    A block reduces after its attention, so its CLS token never feels that block's own reduction: the first one shows
    in the second block, and the last one never. A pooled feature feels each at once.
    """
    return [0.0, *amounts[:-1]] if has_cls else list(amounts)


def predict_critical_r(
    channel: Channel,
    tolerance: Tolerance,
    probe: Schedule,
    depth: int,
    num_patches: int,
    has_cls: bool,
    drop: float = DROP,
    feedback: Feedback = "network",
) -> int | None:
    """Smallest constant r at which more than `drop` of the classes should change; None if none should.

    Args:
        channel: Amplifier fitted to the probe's distortion.
        tolerance: What the probe's images take.
        has_cls: Whether the distortion is that of the CLS token.
        feedback: What makes distortion grow from block to block. "reduction" is the paper's coupling, beta = 1 + alpha
            r delta; "network" keeps the probe's beta for every r, which is what is measured (docs/diagnostics.md).
    """
    probed = probe.token_counts(depth, num_patches)
    at_probe = _final(channel, probed, probed, num_patches, has_cls, feedback)
    if at_probe <= 0:
        return None
    for r in range(1, num_patches // 2 + 1):
        counts = Schedule.parse(r).token_counts(depth, num_patches)
        final = _final(channel, counts, probed, num_patches, has_cls, feedback)
        if tolerance.disagreement(final / at_probe) > drop:
            return r
    return None


def _final(
    channel: Channel, counts: list[int], at_probe: list[int], num_patches: int, has_cls: bool, feedback: Feedback
) -> float:
    """Distortion after the last block."""
    steps, probed = (
        steps_seen([float(gone) for gone in removed_from(num_patches, left)], has_cls) for left in (counts, at_probe)
    )
    if feedback == "reduction":
        return float(recurrence([channel], [steps])[-1])
    growth = Channel(0.0, channel.gain * sum(probed) / max(sum(step > 0 for step in probed), 1))
    return float(recurrence([Channel(channel.seed, 0.0), growth], [steps, [1.0] * len(steps)])[-1])
