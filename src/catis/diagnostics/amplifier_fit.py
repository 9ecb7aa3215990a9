"""Fits the amplifier to a measured distortion, with straight growth beside it, so that "super-linear" is a test."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import optimize, stats

from catis.diagnostics.amplifier import Channel, Floats, recurrence

SIGNIFICANCE = 0.05


@dataclass(frozen=True)
class AmplifierFit:
    """Amplifier and straight line, fitted to the same distortion."""

    channel: Channel  # fitted seed and gain per operation
    beta: float  # 1 + gain * mean amount per block
    r_squared: float  # of the amplifier
    aic: float  # AICc of the amplifier (two parameters and the noise)
    linear_seed: float  # distortion per operation of the straight line
    linear_r_squared: float  # of the straight line
    linear_aic: float  # AICc of the straight line (one parameter and the noise)
    p_value: float  # F-test of the amplifier against the straight line inside it; NaN with too few blocks
    beta_low: float = math.nan  # lower end of a 95 % jackknife interval over images; NaN if not asked for
    beta_high: float = math.nan  # upper end
    path: tuple[float, ...] = ()  # distortion that the fitted amplifier gives after each step

    @property
    def growth(self) -> str:
        """Super-linear or sub-linear where the test says so at 5 % and no interval speaks against it, else linear."""
        straight = self.beta_low <= 1.0 <= self.beta_high
        if not self.p_value < SIGNIFICANCE or straight:
            return "linear"
        return "super-linear" if self.channel.gain > 0 else "sub-linear"


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
    measured, steps = check_path(distortion, amounts)
    seed_line, error_line = _best_seed(0.0, measured, steps)
    gain = _best_gain(measured, steps)
    seed, error = _best_seed(gain, measured, steps)
    total = float(((measured - measured.mean()) ** 2).sum())
    return AmplifierFit(
        channel=Channel(seed, gain),
        beta=1.0 + gain * float(steps.mean()),
        r_squared=r_squared(error, total),
        aic=_aicc(error, len(measured), 3),
        linear_seed=seed_line,
        linear_r_squared=r_squared(error_line, total),
        linear_aic=_aicc(error_line, len(measured), 2),
        p_value=_f_test(error_line, error, len(measured)),
        path=tuple((seed * _unit_path(gain, steps)).tolist()),
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


def check_path(distortion: Sequence[float] | Floats, amounts: Sequence[float] | Floats) -> tuple[Floats, Floats]:
    """Both as arrays, if they can be fitted."""
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
    minimum = optimize.minimize_scalar(
        lambda gain: _best_seed(float(gain), measured, steps)[1],
        bounds=(low, high),
        method="bounded",
        options={"xatol": 1e-12 * scale},
    )
    return float(minimum.x)


def r_squared(error: float, total: float) -> float:
    """1 - error / total; NaN when there is nothing to explain."""
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
