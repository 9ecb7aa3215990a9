"""rho_off: how correlated the feature dimensions are over the tokens, against what so few tokens give by chance."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from catis.diagnostics.estimates import BlockMetric, PerBlock

# Largest block of correlations held at once, in numbers: 64 MB of float32, whatever B and D are.
_BLOCK = 1 << 24
_ROUNDING = 8.0


def off_diagonal(features: Tensor) -> Tensor:
    """Mean absolute off-diagonal Pearson correlation of the D dimensions over the tokens (Eq. rho-off).

    Exact: absolute values do not survive the token-by-token Gram side, so every pair of dimensions is looked at, but
    in blocks of bounded size and each pair once; B copies of a D x D matrix never exist.

    Returns:
        (B,) in [0, 1]. A dimension without spread has no correlation and is left out; NaN when fewer than two
        dimensions have any, or there are fewer than two tokens.

    Example:
        >>> off_diagonal(torch.tensor([[[1.0, 2.0], [2.0, 4.0], [3.0, 6.0]]])).round(decimals=4)
        tensor([1.])
    """
    unit, varies = _standardise(features)
    batch, _, dims = unit.shape
    total = unit.new_zeros(batch, dtype=torch.float64)
    rows = max(1, min(dims, _BLOCK // max(1, batch * dims)))
    for start in range(0, dims, rows):
        block = unit[:, :, start : start + rows].transpose(1, 2)
        total += _upper_sum(block @ unit[:, :, start:])  # pairs (j, k) with k >= start: each one once
    pairs = varies * (varies - 1) / 2
    value = total / pairs.clamp_min(1)
    return value.masked_fill(pairs == 0, torch.nan).clamp_max(1.0).to(unit.dtype)


def _standardise(features: Tensor) -> tuple[Tensor, Tensor]:
    """Centred columns of length one, zero where there is no spread, and how many have one."""
    wide = features.to(torch.promote_types(features.dtype, torch.float32))
    centred = wide - wide.mean(1, keepdim=True)
    length = torch.linalg.vector_norm(centred, dim=1, keepdim=True)
    # A spread of a few rounding errors is none: it would correlate perfectly with every other such dimension.
    noise = _ROUNDING * torch.finfo(wide.dtype).eps * wide.abs().amax(1, keepdim=True) * math.sqrt(wide.shape[1])
    varies = ~(length <= noise)  # NaN counts as spread, so that it shows in the result
    return torch.where(varies, centred / length, 0.0), varies.squeeze(1).sum(-1).double()


def _upper_sum(block: Tensor) -> Tensor:
    """(B,) sum of |r_jk| over k > j, for rows j = 0 .. of a block whose columns start at the same dimension."""
    rows = block.shape[1]
    square = block[:, :, :rows].abs()
    inside = (square.sum((1, 2), dtype=torch.float64) - square.diagonal(dim1=1, dim2=2).sum(1, dtype=torch.float64)) / 2
    return inside + block[:, :, rows:].abs().sum((1, 2), dtype=torch.float64)


def chance_level(tokens: int) -> float:
    """Expected |r| of two independent Gaussian dimensions over n tokens, Gamma((n-1)/2) / (sqrt(pi) Gamma(n/2)).

    Exact for every n; for many tokens it is sqrt(2 / (pi (n - 1))), which is 20 % too low at n = 2. NaN below 2.

    Example:
        >>> round(chance_level(2), 6), round(chance_level(196), 4)
        (1.0, 0.0572)
    """
    if tokens < 2:
        return math.nan
    return math.exp(math.lgamma((tokens - 1) / 2) - math.lgamma(tokens / 2)) / math.sqrt(math.pi)


def matched_level(vanilla: float, tokens_before: int, tokens_after: int) -> float:
    """rho_off that the vanilla features would show if only `tokens_after` of their tokens were looked at.

    Chance and correlation add in quadrature: sqrt(chance_after^2 + vanilla^2 - chance_before^2). The excess over chance
    shrinks as tokens go although nothing happened to the features, so damage is what lies above this level.

    Example:
        >>> round(matched_level(0.2, 196, 196), 3), round(matched_level(0.2, 196, 9), 3)
        (0.2, 0.348)
    """
    signal = max(vanilla**2 - chance_level(tokens_before) ** 2, 0.0)
    return min(math.sqrt(chance_level(tokens_after) ** 2 + signal), 1.0)


def matched_levels(vanilla: PerBlock, reduced: PerBlock) -> list[float]:
    """`matched_level` of every block, from "rho_off" and "tokens" of both; NaN where fewer than two tokens are left."""
    blocks = zip(vanilla["rho_off"], vanilla["tokens"], reduced["tokens"], strict=True)
    return [
        matched_level(rho.mean, round(before.mean), round(after.mean)) if after.mean >= 2 and rho.n else math.nan
        for rho, before, after in blocks
    ]


class OffDiagonal(BlockMetric):
    """Accumulates rho_off per block, with the chance level at the number of tokens there and the excess over it.

    Example:
        >>> metric = OffDiagonal()
        >>> metric.update(0, torch.randn(4, 50, 16, generator=torch.Generator().manual_seed(0)))
        >>> abs(metric.compute()["excess"][0].mean) < 0.01
        True
    """

    shown, label = ("rho_off", "chance"), "rho_off"

    def update(self, block: int, features: Tensor) -> None:
        """Add the (B, n, D) patch tokens that leave a block."""
        value = off_diagonal(features)
        chance = chance_level(features.shape[1])
        self._means.update("rho_off", block, value)
        self._means.update("chance", block, torch.full_like(value, chance))
        self._means.update("excess", block, value - chance)
        self._means.update("tokens", block, torch.full_like(value, features.shape[1]))
