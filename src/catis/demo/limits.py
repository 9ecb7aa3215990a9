"""r_crit of every depth and method by bisection, with a bootstrap over images, and its law over depth."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from catis.core.reduction import Reduction
from catis.demo.scores import VANILLA, Scores
from catis.demo.settings import Settings
from catis.diagnostics.critical import DROP, DepthFit, find_critical_r, fit_depth

DRAWS = 1000


@dataclass(frozen=True)
class Limit:
    """r_crit of one model and method."""

    model: str  # zoo name
    depth: int  # its blocks
    method: str
    r: int | None  # smallest r that loses more than 5 points; None if none up to `r_max` does
    r_max: int  # largest r tried
    # r_crit in each bootstrap sample of the images, accuracy interpolated between the r tried; r_max + 1 where none
    # lost more.
    draws: tuple[int, ...]
    monotone: bool  # whether accuracy fell with r at all r tried, which bisection takes for granted

    @property
    def interval(self) -> tuple[int, int]:
        """95 % of the bootstrap samples."""
        low, high = np.percentile(self.draws, [2.5, 97.5])
        return int(np.floor(low)), int(np.ceil(high))


def find_limit(scores: Scores, view: str, method: str, settings: Settings) -> Limit:
    """Bisect for r_crit, by accuracy; passes that were made before are not made again."""
    r_max, vanilla = settings.r_max(scores.name), scores.accuracy(view, VANILLA)
    critical = find_critical_r(lambda r: scores.accuracy(view, Reduction.of(method, r)), r_max, vanilla)
    tried = scores.tried(view, method)
    reductions = [VANILLA, *(Reduction.of(method, r) for r in tried)]
    right = np.stack([scores.predictions(view, reduction).correct() for reduction in reductions])
    n = right.shape[1]
    times = np.random.default_rng(settings.seed).multinomial(n, np.full(n, 1 / n), size=DRAWS)
    accuracy = times.astype(np.float64) @ right.T / n
    draws = first_loss([0, *tried], accuracy[:, :1] - accuracy, r_max)
    return Limit(scores.name, scores.depth, method, critical.r, r_max, tuple(draws), critical.monotone)


def first_loss(tried: Sequence[int], losses: NDArray[np.float64], r_max: int) -> list[int]:
    """Smallest whole r whose loss, interpolated between those tried, is more than 5 points; r_max + 1 if none.

    Example:
        >>> first_loss([0, 4, 8], np.array([[0.0, 0.04, 0.08], [0.0, 0.0, 0.01]]), 8)
        [6, 9]
    """
    amounts = np.arange(r_max + 1)
    curves = np.stack([np.interp(amounts, tried, row) for row in losses])
    lost = curves > DROP + 1e-9
    return [int(first) for first in np.where(lost.any(1), lost.argmax(1), r_max + 1)]


@dataclass(frozen=True)
class Law:
    """r_crit = k / L for one method."""

    method: str
    fit: DepthFit | None  # over the depths that have an r_crit; None if fewer than two have
    draws: tuple[float, ...]  # k in each bootstrap sample of the images, the same samples for every method

    def minus(self, other: Law) -> tuple[float, float]:
        """95 % bootstrap interval of the difference in k, over the same images."""
        low, high = np.percentile(np.subtract(self.draws, other.draws), [2.5, 97.5])
        return float(low), float(high)


def fit_laws(limits: Mapping[tuple[str, str], Limit], methods: Sequence[str]) -> dict[str, Law]:
    """The law of each method over the models in `limits`, keyed by (model, method)."""
    laws = {}
    for method in methods:
        mine = [limit for limit in limits.values() if limit.method == method]
        known = [(limit.depth, float(limit.r)) for limit in mine if limit.r is not None]
        fit = fit_depth([depth for depth, _ in known], [r for _, r in known]) if len(known) > 1 else None
        x = 1 / np.array([limit.depth for limit in mine])
        slopes = x @ np.array([limit.draws for limit in mine]) / (x @ x)
        laws[method] = Law(method, fit, tuple(float(slope) for slope in slopes))
    return laws
