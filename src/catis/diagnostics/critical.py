"""r_crit: the smallest r that costs more than 5 points, found by bisection, and its law over model depth."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
from scipy import stats

from catis.diagnostics.amplifier_fit import r_squared

DROP = 0.05


@dataclass(frozen=True)
class CriticalR:
    """Result of `find_critical_r`."""

    r: int | None  # smallest r that loses more than the allowed drop; None if none up to `r_max` does
    r_max: int  # largest r that was possible
    drop: float  # the allowed drop
    scores: dict[int, float] = field(default_factory=dict)  # score at each r that was tried, 0 (vanilla) included

    @property
    def monotone(self) -> bool:
        """Whether the scores tried fall with r, which bisection takes for granted."""
        ordered = [self.scores[r] for r in sorted(self.scores)]
        return all(a >= b for a, b in pairwise(ordered))


def find_critical_r(score: Callable[[int], float], r_max: int, vanilla: float = 1.0, drop: float = DROP) -> CriticalR:
    """Bisect for the smallest r in 1 .. r_max with score(r) < vanilla - drop.

    Args:
        score: Accuracy, or agreement with vanilla, as a share in [0, 1], at a given r.
        r_max: Largest r to try; about half the patch tokens is the most that one block can remove.
        vanilla: Score at r = 0: the accuracy, or 1 for agreement.
        drop: Points that may be lost, as a share.

    Example:
        >>> find_critical_r(lambda r: 1 - (r / 20) ** 3, r_max=20).r
        8
    """
    if r_max < 1:
        raise ValueError(f"r_max={r_max}: expected at least 1")
    scores = {0: vanilla}

    def lost(r: int) -> bool:
        scores[r] = score(r)
        # Scores are shares k / n: a drop of exactly 5 points must not count as more through rounding.
        return vanilla - scores[r] > drop + 1e-9

    low, high = 0, r_max  # low keeps the score; high loses it, once that has been seen
    if not lost(high):
        return CriticalR(None, r_max, drop, scores)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if lost(middle) else (middle, high)
    return CriticalR(high, r_max, drop, scores)


@dataclass(frozen=True)
class DepthFit:
    """r_crit against 1/L over models."""

    slope: float  # k of r_crit = k / L, through the origin (Eq. rcrit)
    low: float  # lower end of its 95 % interval; NaN with fewer than two models
    high: float  # upper end
    r_squared: float  # of that fit, against the mean; negative if it is worse than no dependence on L
    free_slope: float  # slope of a straight line that need not pass through the origin
    intercept: float  # its intercept; the law says 0
    free_r_squared: float  # its R^2
    n: int  # models


def fit_depth(depths: Sequence[int], r_crit: Sequence[float]) -> DepthFit:
    """Fit r_crit = k / L, and a straight line in 1/L beside it.

    Example:
        >>> fit = fit_depth([12, 24, 40], [15.0, 7.5, 4.5])
        >>> round(fit.slope, 6), round(fit.r_squared, 6), fit.n
        (180.0, 1.0, 3)
    """
    if not depths or len(depths) != len(r_crit) or min(depths) < 1:
        raise ValueError(f"depths {list(depths)}, r_crit {list(r_crit)}: expected one r_crit for each depth >= 1")
    x, y = 1.0 / np.asarray(depths, dtype=np.float64), np.asarray(r_crit, dtype=np.float64)
    n, total = len(x), float(((y - y.mean()) ** 2).sum())
    slope = float(x @ y / (x @ x))
    error = float(((y - slope * x) ** 2).sum())
    reach = float(stats.t.ppf(0.975, n - 1)) * math.sqrt(error / (n - 1) / float(x @ x)) if n > 1 else math.nan
    free_slope, intercept, free_r = math.nan, math.nan, math.nan
    if len(set(depths)) > 1:
        free_slope, intercept = (float(c) for c in np.polyfit(x, y, 1))
        free_r = r_squared(float(((y - free_slope * x - intercept) ** 2).sum()), total)
    return DepthFit(slope, slope - reach, slope + reach, r_squared(error, total), free_slope, intercept, free_r, n)
