"""Which of two methods is better, on the same images, and whether so few images can say."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from catis.diagnostics.estimates import LayerMeans, mcnemar

__all__ = ["LEVEL", "Paired", "compare", "resample"]

LEVEL = 0.05
"""Differences with a smaller p are called differences."""


@dataclass(frozen=True)
class Paired:
    """Difference of two methods on the same images.

    Attributes:
        difference: First minus second, share of images.
        low: Lower end of its 95 % interval (Student's t over images).
        high: Upper end.
        p: Exact McNemar test: the images that only one of them gets right, as coin flips.
        n: Images.
    """

    difference: float
    low: float
    high: float
    p: float
    n: int

    @property
    def verdict(self) -> str:
        """Is the first "better", "worse", or is there "no difference" that n images can show?"""
        if self.p >= LEVEL:
            return "no difference"
        return "better" if self.difference > 0 else "worse"


def compare(first: NDArray[np.bool_], second: NDArray[np.bool_]) -> Paired:
    """Compare two methods on the same images.

    Args:
        first: (n,) whether the first was right.
        second: (n,) whether the second was.

    Example:
        >>> right = np.ones(40, bool)
        >>> found = compare(right, np.arange(40) >= 10)
        >>> found.difference, found.verdict
        (0.25, 'better')
    """
    means = LayerMeans()
    means.update("difference", 0, torch.from_numpy(first.astype(np.float64) - second))
    wins, losses = int((first & ~second).sum()), int((~first & second).sum())
    found = means["difference"][0]
    return Paired(found.mean, found.low, found.high, mcnemar(wins, losses), found.n)


def resample(n: int, draws: int, seed: int) -> NDArray[np.float64]:
    """(draws, n) how often each of n images occurs in each bootstrap sample."""
    return np.random.default_rng(seed).multinomial(n, np.full(n, 1 / n), size=draws).astype(np.float64)
