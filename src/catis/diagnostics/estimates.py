"""Means over images with confidence intervals, per block in constant memory: depth bands, and curves in matplotlib."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from scipy import stats
from torch import Tensor

from catis.errors import require

CONFIDENCE = 0.95


@dataclass(frozen=True)
class Estimate:
    """A mean over images with its 95 % confidence interval (Student's t).

    Attributes:
        mean: NaN if no image had a defined value.
        low: Lower end; NaN for fewer than two images.
        high: Upper end.
        n: Images with a defined value.
    """

    mean: float
    low: float
    high: float
    n: int

    def __format__(self, spec: str) -> str:
        return format(self.mean, spec)


PerBlock = Mapping[str, list[Estimate]]
"""Quantities by name, each with one estimate per block."""


def mcnemar(gained: int, lost: int) -> float:
    """Exact two-sided p of McNemar's test: images that only one of two methods gets right, as coin flips.

    Example:
        >>> mcnemar(10, 0), mcnemar(0, 0)
        (0.001953125, 1.0)
    """
    return float(stats.binomtest(gained, gained + lost).pvalue) if gained + lost else 1.0


def wilson(hits: int, n: int, level: float = CONFIDENCE) -> tuple[float, float]:
    """Wilson score interval of a share, in per cent.

    Example:
        >>> [round(end, 2) for end in wilson(811, 1000)]
        [78.56, 83.41]
        >>> wilson(0, 0)
        (0.0, 100.0)
    """
    if n == 0:
        return 0.0, 100.0
    z = float(stats.norm.ppf(0.5 + level / 2))
    share = hits / n
    centre = share + z * z / (2 * n)
    spread = z * math.sqrt(share * (1 - share) / n + z * z / (4 * n * n))
    low, high = (100 * (centre + sign * spread) / (1 + z * z / n) for sign in (-1, 1))
    return max(0.0, low), min(100.0, high)


class BlockMeans:
    """Running mean and variance over images of any number of named per-block quantities.

    Images where a quantity is undefined (NaN) are left out of it and show in its `n`.

    Example:
        >>> means = BlockMeans()
        >>> means.update("rho", 0, torch.tensor([0.5, 0.7, float("nan")]))
        >>> round(means["rho"][0].mean, 3), means["rho"][0].n
        (0.6, 2)
    """

    def __init__(self) -> None:
        self._moments: dict[str, dict[int, tuple[int, float, float]]] = {}

    def update(self, name: str, block: int, values: Tensor) -> None:
        """Add one value per image."""
        known = values.detach().double().flatten()
        known = known[~known.isnan()]
        if known.numel() == 0:
            self._moments.setdefault(name, {}).setdefault(block, (0, 0.0, 0.0))
            return
        n, mean, squares = self._moments.setdefault(name, {}).get(block, (0, 0.0, 0.0))
        m, new = known.numel(), float(known.mean())
        step = new - mean
        squares += float((known - new).square().sum()) + step * step * n * m / (n + m)  # Chan's pairwise update
        self._moments[name][block] = (n + m, mean + step * m / (n + m), squares)

    def names(self) -> list[str]:
        """Quantities seen so far."""
        return list(self._moments)

    def __getitem__(self, name: str) -> list[Estimate]:
        """One estimate per block."""
        return [_estimate(*moments) for _, moments in sorted(self._moments[name].items())]

    def compute(self) -> dict[str, list[Estimate]]:
        """Everything, per block."""
        return {name: self[name] for name in self._moments}


class BlockMetric:
    """A diagnostic that accumulates over a stream of batches, block by block: `update` feeds `_means`."""

    shown: ClassVar[tuple[str, ...]]
    """Quantities that `plot` draws."""
    label: ClassVar[str]
    """Its axis."""

    def __init__(self) -> None:
        self._means = BlockMeans()

    def compute(self) -> dict[str, list[Estimate]]:
        """Every quantity, per block."""
        return self._means.compute()

    def plot(self, ax: Any | None = None) -> Any:
        """One line per quantity over the depth, with its confidence band; returns the axes."""
        if ax is None:
            require("plot()", "plots", "matplotlib")
            from matplotlib.figure import Figure

            ax = Figure(figsize=(6, 3.5), layout="constrained").add_subplot()
        for name, estimates in ((name, blocks) for name, blocks in self.compute().items() if name in self.shown):
            blocks = range(len(estimates))
            (line,) = ax.plot(blocks, [estimate.mean for estimate in estimates], marker="o", markersize=3, label=name)
            low, high = [estimate.low for estimate in estimates], [estimate.high for estimate in estimates]
            ax.fill_between(blocks, low, high, alpha=0.2, color=line.get_color(), linewidth=0)
        ax.set_xlabel("block")
        ax.set_ylabel(self.label)
        ax.legend(frameon=False, fontsize="small")
        return ax


def _estimate(n: int, mean: float, squares: float) -> Estimate:
    if n == 0:
        return Estimate(math.nan, math.nan, math.nan, 0)
    if n == 1:
        return Estimate(mean, math.nan, math.nan, 1)
    reach = float(stats.t.ppf((1 + CONFIDENCE) / 2, n - 1)) * math.sqrt(squares / (n - 1) / n)
    return Estimate(mean, mean - reach, mean + reach, n)


def band_blocks(depth: int) -> dict[str, list[int]]:
    """Blocks of the paper's depth bands, scaled to any depth: 0-2, 4-7 and 9-11 of 12 (Table complementarity).

    Example:
        >>> band_blocks(12)
        {'shallow': [0, 1, 2], 'middle': [4, 5, 6, 7], 'deep': [9, 10, 11]}
    """
    cuts = {"shallow": (0.0, 1 / 4), "middle": (1 / 3, 2 / 3), "deep": (3 / 4, 1.0)}
    starts = {name: min(round(low * depth), depth - 1) for name, (low, _) in cuts.items()}
    return {
        name: list(range(starts[name], max(round(high * depth), starts[name] + 1))) for name, (_, high) in cuts.items()
    }


def bands(per_block: Sequence[Estimate]) -> Mapping[str, float]:
    """Mean of each depth band and of all blocks ("all"); blocks without a value are left out.

    Example:
        >>> bands([Estimate(x / 10, 0, 1, 5) for x in range(12)])["deep"]
        1.0
    """
    means = [estimate.mean for estimate in per_block]
    groups = {**band_blocks(len(means)), "all": list(range(len(means)))}
    return {name: _mean([means[block] for block in blocks]) for name, blocks in groups.items()}


def _mean(values: Sequence[float]) -> float:
    known = torch.tensor([value for value in values if not math.isnan(value)], dtype=torch.float64)
    return float(known.mean()) if known.numel() else math.nan
