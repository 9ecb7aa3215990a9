"""The error amplifier: the distortion recurrence of the paper, single and dual channel, and its closed form."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Channel:
    """One kind of reduction operation (merge or evict) with linear coupling, epsilon(Delta) = epsilon_0 + alpha Delta.

    Only two products can be seen from outside: `seed` = epsilon_0 delta and `gain` = alpha delta, both per operation.
    """

    seed: float  # distortion that one operation adds to an undistorted state
    gain: float  # growth of that per unit of distortion present; negative if damage saturates

    @property
    def ratio(self) -> float:
        """epsilon_0 / alpha; infinite without feedback."""
        return self.seed / self.gain if self.gain else float("inf")

    def beta(self, r: float) -> float:
        """Beta = 1 + alpha r delta (Eq. closed-form)."""
        return 1.0 + self.gain * r


def recurrence(channels: Sequence[Channel], amounts: Sequence[Sequence[float]]) -> Floats:
    """Delta(l+1) = Delta(l) + sum over channels of (epsilon_0 + alpha Delta(l)) r(l) delta.

    Eq. recurrence with linear coupling for one channel, Eq. dual-channel for two.

    Args:
        channels: One for Eq. recurrence, two (merge, evict) for Eq. dual-channel.
        amounts: Per channel, operations in each block; they need not be constant.

    Returns:
        Delta(0) = 0, Delta(1), ..., Delta(L).

    Example:
        >>> recurrence([Channel(seed=1.0, gain=1.0)], [[1, 1, 1]])
        array([0., 1., 3., 7.])
    """
    blocks = [list(steps) for steps in zip(*amounts, strict=True)]
    if len(amounts) != len(channels):
        raise ValueError(f"{len(channels)} channels with {len(amounts)} lists of amounts: expected one list for each")
    path = [0.0]
    for steps in blocks:
        growth = sum((c.seed + c.gain * path[-1]) * r for c, r in zip(channels, steps, strict=True))
        path.append(path[-1] + growth)
    return np.array(path)


def closed_form(channels: Sequence[Channel], amounts: Sequence[float], blocks: Sequence[int] | Floats) -> Floats:
    """Delta(l) = c / (beta - 1) (beta^l - 1), for the same amount in every block (Eq. closed-form).

    Args:
        channels: One or two.
        amounts: Operations per block of each channel, constant over depth.
        blocks: Where to evaluate.

    Example:
        >>> closed_form([Channel(seed=1.0, gain=1.0)], [1], [0, 1, 2, 3])
        array([0., 1., 3., 7.])
    """
    at = np.asarray(blocks, dtype=np.float64)
    seed = sum(c.seed * r for c, r in zip(channels, amounts, strict=True))
    feedback = sum(c.gain * r for c, r in zip(channels, amounts, strict=True))  # beta - 1
    if abs(feedback) * at.max(initial=1.0) < 1e-14:  # straight to the last digit; smaller numbers lose theirs below
        line: Floats = seed * at
        return line
    if feedback <= -1:
        raise ValueError(f"beta = {1 + feedback:g}: expected a positive base; the recurrence itself has no such limit")
    # expm1 and log1p keep full precision where beta is close to 1.
    path: Floats = seed * np.expm1(at * np.log1p(feedback)) / feedback
    return path
