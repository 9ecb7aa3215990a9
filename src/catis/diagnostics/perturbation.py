"""Perturbation energy: how much noise on the tokens moves pairwise and unary scores (Proposition perturbation).

V = sum over scores of E[(s~ - s)^2] for cosine similarity (all pairs) and s_nf (all tokens), by Monte Carlo and to
first order. The total V counts scores, so its ratio grows with N_p by counting alone; what decides a ranking is the
energy per score against the spread of the scores, which is given beside it as `noise_to_signal`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from scipy import stats
from torch import Tensor

from catis.core.signals import activation
from catis.diagnostics.consistency import key_cosine


@dataclass(frozen=True)
class Energy:
    """Both signal classes on one set of tokens."""

    pair: float  # V_pair by Monte Carlo, over all N_p (N_p - 1) / 2 pairs
    unary: float  # V_unary by Monte Carlo, over all tokens
    pair_first_order: float  # what the first-order expansion gives for V_pair (Eq. v-pair, gradients as they are).
    unary_first_order: float  # the same for V_unary, population statistics included (Eq. unary-per-token)
    pair_noise_to_signal: float  # energy per pair over the variance of the similarities
    unary_noise_to_signal: float  # energy per token over the variance of s_nf


def gradient_norms(features: Tensor) -> tuple[Tensor, Tensor]:
    """Squared gradients: (N, N) of cosine by its first token, (1 - cos^2) / |z_i|^2, and (N,) direct ones of s_nf."""
    z = features.double()
    cosine = key_cosine(z[None])[0]
    pair = (1 - cosine.square()).clamp_min(0) / z.square().sum(1, keepdim=True)
    unit, variance, score = _standardise(z)
    return pair, (unit.square() / variance).sum(1) / score.square()


def first_order_pair(features: Tensor, sigma: float) -> float:
    """V_pair = sigma^2 sum over i < j of |grad_i|^2 + |grad_j|^2 (Eq. pair-single), summed with no homogeneity."""
    pair, _ = gradient_norms(features)
    return sigma**2 * float(pair.sum() - pair.diagonal().sum())


def first_order_unary(features: Tensor, sigma: float) -> float:
    """V_unary to first order, direct and indirect path (Eq. unary-per-token), in closed form.

    d s_i / d z_jk = u_ik / (s_i sigma_k) (delta_ij - 1/N - u_ik u_jk / N); summing squares over j, with sum_j u = 0 and
    sum_j u^2 = N, leaves u_ik^2 / (s_i sigma_k)^2 (1 - 1/N - u_ik^2 / N).
    """
    unit, variance, score = _standardise(features.double())
    n = len(unit)
    share = unit.square() / variance * (1 - 1 / n - unit.square() / n)
    return sigma**2 * float((share.sum(1) / score.square()).sum())


def perturbation_energy(features: Tensor, sigma: float, draws: int = 64, seed: int = 0) -> Energy:
    """Monte Carlo energies of cosine similarity and s_nf under isotropic Gaussian noise on (N_p, d) tokens.

    Example:
        >>> tokens = torch.randn(32, 64, generator=torch.Generator().manual_seed(0))
        >>> energy = perturbation_energy(tokens, sigma=0.01)
        >>> abs(energy.pair / energy.pair_first_order - 1) < 0.1
        True
    """
    if features.ndim != 2 or len(features) < 2 or not features.isfinite().all():
        raise ValueError(f"features {tuple(features.shape)}: expected finite (N_p, d) with at least two tokens")
    z = features.double()
    upper = torch.triu_indices(len(z), len(z), offset=1).unbind()
    cosine, score = key_cosine(z[None])[0][upper], activation(z[None])[0]
    generator = torch.Generator().manual_seed(seed)
    pair = unary = 0.0
    for _ in range(draws):
        noisy = z + sigma * torch.randn(z.shape, generator=generator, dtype=torch.float64)
        pair += float((key_cosine(noisy[None])[0][upper] - cosine).square().sum()) / draws
        unary += float((activation(noisy[None])[0] - score).square().sum()) / draws
    return Energy(
        pair=pair,
        unary=unary,
        pair_first_order=first_order_pair(z, sigma),
        unary_first_order=first_order_unary(z, sigma),
        pair_noise_to_signal=pair / len(cosine) / max(float(cosine.var(correction=0)), 1e-300),
        unary_noise_to_signal=unary / len(score) / max(float(score.var(correction=0)), 1e-300),
    )


@dataclass(frozen=True)
class EnergyScaling:
    """How V_pair / V_unary grows with the number of tokens."""

    tokens: tuple[int, ...]  # N_p of each point
    energies: tuple[Energy, ...]  # energies of each point
    slope: float  # log-log slope of the measured ratio; the proposition says 1
    low: float  # lower end of its 95 % interval
    high: float  # upper end
    first_order_slope: float  # slope of the first-order prediction of the ratio


def energy_scaling(
    features: Callable[[int], Tensor], tokens: Sequence[int], sigma: float, draws: int = 64, seed: int = 0
) -> EnergyScaling:
    """Measure the ratio at three or more token counts and fit its log-log slope.

    `features` gives (N_p, d) features for a token count; the rest is as for `perturbation_energy`.

    Example:
        >>> def gaussian(n): return torch.randn(n, 32, generator=torch.Generator().manual_seed(n))
        >>> 0.9 < energy_scaling(gaussian, [16, 32, 64, 128], sigma=0.05, draws=16).slope < 1.1
        True
    """
    energies = tuple(perturbation_energy(features(n), sigma, draws, seed + i) for i, n in enumerate(tokens))
    logs = [math.log(n) for n in tokens]
    fit = stats.linregress(logs, [math.log(e.pair / e.unary) for e in energies])
    reach = float(stats.t.ppf(0.975, len(logs) - 2) * fit.stderr) if len(logs) > 2 else math.nan
    predicted = stats.linregress(logs, [math.log(e.pair_first_order / e.unary_first_order) for e in energies])
    slope = float(fit.slope)
    return EnergyScaling(tuple(tokens), energies, slope, slope - reach, slope + reach, float(predicted.slope))


def _standardise(z: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    variance, mean = torch.var_mean(z, 0, correction=0)
    unit = torch.where(variance > 0, (z - mean) / variance.sqrt(), 0.0)
    return unit, torch.where(variance > 0, variance, torch.inf), unit.square().sum(1).sqrt().clamp_min(1e-150)
