"""Fits the amplifier to a measured distortion, with straight growth beside it, so that "super-linear" is a test."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import optimize, stats

from catis.diagnostics.amplifier import Channel, recurrence

__all__ = ["AmplifierFit", "DualFit", "fit_amplifier", "fit_dual", "jackknife_beta"]

Floats = NDArray[np.float64]
SIGNIFICANCE = 0.05


@dataclass(frozen=True)
class AmplifierFit:
    """Amplifier and straight line, fitted to the same distortion.

    Attributes:
        channel: Fitted seed and gain per operation.
        beta: 1 + gain * mean amount per block.
        r_squared: Of the amplifier.
        aic: AICc of the amplifier (two parameters and the noise).
        linear_seed: Distortion per operation of the straight line.
        linear_r_squared: Of the straight line.
        linear_aic: AICc of the straight line (one parameter and the noise).
        p_value: F-test of the amplifier against the straight line inside it; NaN with too few blocks.
        beta_low: Lower end of a 95 % jackknife interval over images; NaN if not asked for.
        beta_high: Upper end.
    """

    channel: Channel
    beta: float
    r_squared: float
    aic: float
    linear_seed: float
    linear_r_squared: float
    linear_aic: float
    p_value: float
    beta_low: float = math.nan
    beta_high: float = math.nan

    @property
    def growth(self) -> str:
        """Super-linear or sub-linear where the test says so at 5 % and no interval speaks against it, else linear."""
        straight = self.beta_low <= 1.0 <= self.beta_high
        if not self.p_value < SIGNIFICANCE or straight:
            return "linear"
        return "super-linear" if self.channel.gain > 0 else "sub-linear"


@dataclass(frozen=True)
class DualFit:
    """Eq. dual-channel, fitted to three runs at once: both channels, merges alone, evictions alone.

    Attributes:
        merge: Seed and gain of a merge.
        evict: Seed and gain of an eviction.
        r_squared: Of this joint fit, per run: "both", "merge_only", "evict_only".
        merge_alone: Amplifier fitted to the merges alone.
        evict_alone: Amplifier fitted to the evictions alone.
        additive_r_squared: How well the two separate fits, put together by Eq. dual-channel with nothing refitted,
            give the run with both; far below 0 if the channels' feedback does not add up as the equation has it.
    """

    merge: Channel
    evict: Channel
    r_squared: dict[str, float]
    merge_alone: AmplifierFit
    evict_alone: AmplifierFit
    additive_r_squared: float


def fit_amplifier(distortion: Sequence[float] | Floats, amounts: Sequence[float] | Floats) -> AmplifierFit:
    """Least squares of the recurrence (Eq. recurrence with linear coupling) on a measured trajectory.

    For a given gain the trajectory is linear in the seed, so only the gain is searched for.

    Args:
        distortion: Delta(1) .. Delta(T), after each of T steps.
        amounts: Operations in each of these steps.

    Raises:
        ValueError: Fewer than three steps, no operations, or values that are not finite.

    Example:
        >>> path = recurrence([Channel(0.002, 0.03)], [[8] * 12])[1:]
        >>> fit = fit_amplifier(path, [8] * 12)
        >>> round(fit.channel.gain, 6), round(fit.beta, 4), fit.growth
        (0.03, 1.24, 'super-linear')
    """
    measured, steps = _checked(distortion, amounts)
    seed_line, error_line = _best_seed(0.0, measured, steps)
    gain = _best_gain(measured, steps)
    seed, error = _best_seed(gain, measured, steps)
    total = float(((measured - measured.mean()) ** 2).sum())
    return AmplifierFit(
        channel=Channel(seed, gain),
        beta=1.0 + gain * float(steps.mean()),
        r_squared=_r_squared(error, total),
        aic=_aicc(error, len(measured), 3),
        linear_seed=seed_line,
        linear_r_squared=_r_squared(error_line, total),
        linear_aic=_aicc(error_line, len(measured), 2),
        p_value=_f_test(error_line, error, len(measured)),
    )


def jackknife_beta(fit: AmplifierFit, leave_one_out: Floats, amounts: Sequence[float] | Floats) -> tuple[float, float]:
    """95 % interval of beta over images, from (groups, T) trajectories with one group of images left out."""
    betas = np.array([fit_amplifier(path, amounts).beta for path in leave_one_out])
    groups = len(betas)
    if groups < 2:
        return math.nan, math.nan
    error = math.sqrt((groups - 1) / groups * float(((betas - betas.mean()) ** 2).sum()))
    reach = float(stats.t.ppf(0.975, groups - 1)) * error
    return fit.beta - reach, fit.beta + reach


def fit_dual(
    both: Sequence[float] | Floats,
    merge_only: Sequence[float] | Floats,
    evict_only: Sequence[float] | Floats,
    merged: Sequence[float] | Floats,
    evicted: Sequence[float] | Floats,
) -> DualFit:
    """Least squares of Eq. dual-channel on a run with both channels and its two replays.

    A single run cannot tell the channels apart when both amounts are constant over depth: hence the replays.

    Args:
        both: Distortion after each step with both channels.
        merge_only: The same with the evictions left out.
        evict_only: The same with the merges left out.
        merged: Merges in each step.
        evicted: Evictions in each step.
    """
    alone = fit_amplifier(merge_only, merged), fit_amplifier(evict_only, evicted)
    runs = [_checked(both, merged)[0], _checked(merge_only, merged)[0], _checked(evict_only, evicted)[0]]
    amounts = [list(merged), list(evicted)]
    scale = max(float(np.abs(run).max()) for run in runs) or 1.0

    def residuals(x: Floats) -> Floats:
        return np.concatenate([(a - b) / scale for a, b in zip(runs, _dual_paths(x, amounts), strict=True)])

    # Gains add up in the equation, so the joint fit starts from half of what each run alone asks for.
    start = [value for fit in alone for value in (fit.channel.seed, fit.channel.gain / 2)]
    size = np.maximum(np.abs(start), 1e-12)
    found = optimize.least_squares(lambda x: residuals(x * size), np.array(start) / size, max_nfev=2000)
    best = found.x * size
    names = ("both", "merge_only", "evict_only")
    shares = [_share(run, path) for run, path in zip(runs, _dual_paths(best, amounts), strict=True)]
    together = recurrence([alone[0].channel, alone[1].channel], amounts)[1:]
    return DualFit(
        merge=Channel(float(best[0]), float(best[1])),
        evict=Channel(float(best[2]), float(best[3])),
        r_squared=dict(zip(names, shares, strict=True)),
        merge_alone=alone[0],
        evict_alone=alone[1],
        additive_r_squared=_share(runs[0], together),
    )


def _dual_paths(x: Floats, amounts: list[list[float]]) -> list[Floats]:
    """Both channels, merges alone, evictions alone."""
    merge, evict = Channel(float(x[0]), float(x[1])), Channel(float(x[2]), float(x[3]))
    both = recurrence([merge, evict], amounts)[1:]
    return [both, recurrence([merge], amounts[:1])[1:], recurrence([evict], amounts[1:])[1:]]


def _share(measured: Floats, predicted: Floats) -> float:
    return _r_squared(float(((measured - predicted) ** 2).sum()), float(((measured - measured.mean()) ** 2).sum()))


def _checked(distortion: Sequence[float] | Floats, amounts: Sequence[float] | Floats) -> tuple[Floats, Floats]:
    measured, steps = np.asarray(distortion, dtype=np.float64), np.asarray(amounts, dtype=np.float64)
    if measured.shape != steps.shape or measured.ndim != 1 or len(measured) < 3:
        raise ValueError(
            f"{measured.shape} distortions, {steps.shape} amounts: expected one each for three or more steps"
        )
    if not (np.isfinite(measured).all() and np.isfinite(steps).all() and (steps >= 0).all() and steps.sum() > 0):
        raise ValueError(f"distortion {measured}, amounts {steps}: expected finite values and some operations")
    return measured, steps


def _unit_path(gain: float, steps: Floats) -> Floats:
    """Trajectory for seed 1."""
    return recurrence([Channel(1.0, gain)], [steps.tolist()])[1:]


def _best_seed(gain: float, measured: Floats, steps: Floats) -> tuple[float, float]:
    """Best seed for a gain, and its squared error."""
    path = _unit_path(gain, steps)
    seed = max(0.0, float(path @ measured / (path @ path)))
    return seed, float(((measured - seed * path) ** 2).sum())


def _best_gain(measured: Floats, steps: Floats) -> float:
    """Grid over beta - 1 from just above -1 to 1000, then a bounded search around the best."""
    scale = 1.0 / float(steps.max())
    grid = scale * np.concatenate([np.linspace(-0.98, 0.0, 50), np.geomspace(1e-3, 1e3, 150)])
    errors = [_best_seed(float(gain), measured, steps)[1] for gain in grid]
    at = int(np.argmin(errors))
    low, high = grid[max(at - 1, 0)], grid[min(at + 1, len(grid) - 1)]
    found = optimize.minimize_scalar(
        lambda gain: _best_seed(float(gain), measured, steps)[1],
        bounds=(low, high),
        method="bounded",
        options={"xatol": 1e-12 * scale},
    )
    return float(found.x)


def _r_squared(error: float, total: float) -> float:
    return 1.0 - error / total if total > 0 else math.nan


def _aicc(error: float, n: int, parameters: int) -> float:
    """Akaike's criterion with the small-sample correction; infinite when there are too few points for it."""
    if n - parameters - 1 <= 0:
        return math.inf
    likelihood = n * math.log(max(error / n, np.finfo(np.float64).tiny))
    return likelihood + 2 * parameters + 2 * parameters * (parameters + 1) / (n - parameters - 1)


def _f_test(error_line: float, error: float, n: int) -> float:
    if n < 4:
        return math.nan
    if error <= error_line * 1e-14:  # an exact fit of something that is not straight, or of nothing
        return 0.0 if error_line > 0 else 1.0
    return float(stats.f.sf((error_line - error) / (error / (n - 2)), 1, n - 2))
