"""Whether real perturbations are what the perturbation-energy proposition assumes them to be."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from catis.diagnostics.perturbation import gradient_norms


@dataclass(frozen=True)
class Assumptions:
    """How far real perturbations (corrupted minus clean features) are from what the proposition assumes."""

    mean_share: float  # |E xi|^2 / E |xi|^2 over tokens; 0 if zero-mean
    isotropy: float  # effective number of noise dimensions over d; 1 if isotropic
    isotropy_expected: float  # what isotropic noise of this sample size would show
    token_cosine: float  # mean cosine between the noise of two tokens of an image; 0 if independent
    pair_spread: float  # coefficient of variation of squared gradients over pairs; 0 if homogeneous
    unary_spread: float  # the same over tokens
    gradient_ratio: float  # G_pair / G_unary; the proposition needs it to be of order 1
    dimensions: int  # d


def measure_assumptions(clean: Tensor, corrupted: Tensor) -> Assumptions:
    """Check the proposition's assumptions on (B, N_p, d) features of clean and corrupted images.

    Example:
        >>> g = torch.Generator().manual_seed(0)
        >>> z = torch.randn(8, 64, 16, generator=g)
        >>> measured = measure_assumptions(z, z + 0.1 * torch.randn(8, 64, 16, generator=g))
        >>> measured.mean_share < 0.01, abs(measured.token_cosine) < 0.02, measured.isotropy > 0.9
        (True, True, True)
    """
    noise = (corrupted - clean).double()
    flat = noise.flatten(0, 1)
    samples, d = flat.shape
    covariance = torch.cov(flat.T, correction=0)
    unit = torch.nn.functional.normalize(noise, dim=-1)
    n = noise.shape[1]
    together = unit.sum(1).square().sum(-1)  # sum over all pairs of tokens, each with itself included
    grads = [gradient_norms(image) for image in clean]
    pair = torch.cat([g[0][~torch.eye(n, dtype=torch.bool)] for g in grads])
    unary = torch.cat([g[1] for g in grads])
    return Assumptions(
        mean_share=float(flat.mean(0).square().sum() / flat.square().sum(1).mean()),
        isotropy=float(covariance.trace() ** 2 / covariance.square().sum() / d),
        isotropy_expected=1 / (1 + d / samples),
        token_cosine=float(((together - n) / (n * (n - 1))).mean()),
        pair_spread=float(pair.std() / pair.mean()),
        unary_spread=float(unary.std() / unary.mean()),
        gradient_ratio=float(pair.mean() / unary.mean()),
        dimensions=d,
    )
