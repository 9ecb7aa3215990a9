"""rho_s: does a score rank tokens, or pairs of tokens, alike in the clean and in the corrupted image?"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from catis.core.signals import activation, euclidean, l2, momentum, zscore
from catis.core.view import BlockView
from catis.diagnostics.estimates import BlockMetric
from catis.diagnostics.ranks import average_ranks, correlate_ranks, has_nan, sort_once, spearman


class PairwiseConsistency(NamedTuple):
    """Per image: rho_s of the pairwise ranking, rho_s inside the pool (None without one), and Delta F."""

    rho: Tensor
    pool: Tensor | None
    frobenius: Tensor


def key_cosine(keys: Tensor) -> Tensor:
    """(B, N_p, N_p) cosine similarity S of (B, N_p, d) keys; a zero vector is similar to nothing."""
    unit = F.normalize(keys, dim=-1)
    return unit @ unit.transpose(1, 2)


def frobenius_distance(clean: Tensor, corrupted: Tensor) -> Tensor:
    """(B,) Delta F = || S_clean - S_corr ||_F of (B, N_p, N_p) matrices, whole matrix."""
    distance: Tensor = torch.linalg.matrix_norm(clean - corrupted)
    return distance


def pairwise_consistency(
    clean: Tensor, corrupted: Tensor, pool: Tensor | None = None, *, whole: bool = False
) -> PairwiseConsistency:
    """Spearman between the flattened similarity matrices of clean and corrupted images (Eq. spearman), and Delta F.

    Args:
        clean: (B, N_p, N_p) similarities of the clean images.
        corrupted: The same of the corrupted ones.
        pool: (B, N_p) bool, the merge pool M; both tokens of a pair must be in it to count for the pool's rho_s.
        whole: Rank the whole matrix, diagonal and both triangles, and not the strict upper triangle: a constant
            diagonal and every value twice, which is what "flatten both matrices" says to the letter.

    Example:
        >>> keys = torch.randn(2, 8, 4, generator=torch.Generator().manual_seed(0))
        >>> pairwise_consistency(key_cosine(keys), key_cosine(2 * keys)).rho.round(decimals=6)
        tensor([1., 1.], dtype=torch.float64)
    """
    index = _pairs(clean.shape[1], whole, clean.device)
    a, b = (matrix.flatten(1).index_select(1, index) for matrix in (clean, corrupted))
    runs_a, runs_b = sort_once(a), sort_once(b)
    undefined = has_nan(a) | has_nan(b)
    rho = correlate_ranks(average_ranks(runs_a), average_ranks(runs_b)).masked_fill(undefined, torch.nan)
    within = None
    if pool is not None:
        both = (pool[:, :, None] & pool[:, None, :]).flatten(1).index_select(1, index)
        within = correlate_ranks(average_ranks(runs_a, both), average_ranks(runs_b, both), both)
        within = within.masked_fill(has_nan(a, both) | has_nan(b, both), torch.nan)
    return PairwiseConsistency(rho, within, frobenius_distance(clean, corrupted))


@cache
def _pairs(num_patches: int, whole: bool, device: torch.device) -> Tensor:
    if whole:
        return torch.arange(num_patches * num_patches, device=device)
    rows, columns = torch.triu_indices(num_patches, num_patches, offset=1, device=device)
    pairs: Tensor = rows * num_patches + columns
    return pairs


def unary_signals(
    view: BlockView, attention: Tensor | None, gamma: float = 0.5, w_cls: float = 0.5, l_start: int = 0
) -> dict[str, Tensor]:
    """Every unary score of a block's patch tokens, (B, N_p) each; without CLS those that need it are missing.

    Args:
        view: The block.
        attention: Its A_cls, None in a model without CLS token.
        gamma: Momentum of s_cls.
        w_cls: Weight of s_cls in the fused score.
        l_start: First block in which the fused score uses s_cls; before it, it is s_nf alone.
    """
    features = view.patch_features().float()
    signals = {"s_nf": activation(features), "l2": l2(features), "euclidean": euclidean(features)}
    signals["fused"] = zscore(signals["s_nf"])
    if attention is not None:
        signals["s_cls"] = momentum(attention.float(), view.previous_cls, gamma)
        if view.block >= l_start:
            signals["fused"] = torch.lerp(signals["fused"], zscore(signals["s_cls"]), w_cls)  # Eq. fusion
    return signals


def unary_consistency(clean: Mapping[str, Tensor], corrupted: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """(B,) Spearman over the tokens, for each signal.

    Example:
        >>> unary_consistency({"s": torch.tensor([[1.0, 2.0, 3.0]])}, {"s": torch.tensor([[2.0, 4.0, 9.0]])})
        {'s': tensor([1.], dtype=torch.float64)}
    """
    return {name: spearman(signal, corrupted[name]) for name, signal in clean.items()}


class RankingConsistency(BlockMetric):
    """Accumulates rho_s of every signal ("pairwise", "pool", "s_nf", "s_cls", "fused", "l2", "euclidean"), and Delta F.

    Args:
        tau: Triage radius that defines the merge pool, |fused| <= tau on the clean image.

    Example:
        >>> metric = RankingConsistency()
        >>> keys, scores = torch.randn(2, 9, 4), {"fused": torch.randn(2, 9)}
        >>> metric.update(0, keys, keys + 0.1, scores, scores)
        >>> metric.compute()["fused"][0].mean
        1.0
    """

    shown, label = ("pairwise", "pool", "s_nf", "s_cls", "fused"), "rho_s"

    def __init__(self, tau: float = 1.0) -> None:
        super().__init__()
        self.tau = tau

    def update(
        self,
        block: int,
        clean_keys: Tensor,
        corrupted_keys: Tensor,
        clean_signals: Mapping[str, Tensor],
        corrupted_signals: Mapping[str, Tensor],
    ) -> None:
        """Add one batch of one block: (B, N_p, d) keys and (B, N_p) signals of clean and corrupted images."""
        fused = clean_signals.get("fused")
        pool = None if fused is None else fused.abs() <= self.tau  # M of Eq. triage
        clean, corrupted = key_cosine(clean_keys.float()), key_cosine(corrupted_keys.float())
        pairwise = pairwise_consistency(clean, corrupted, pool)
        self._means.update("pairwise", block, pairwise.rho)
        if pool is not None and pairwise.pool is not None:
            self._means.update("pool", block, pairwise.pool)
            self._means.update("pool_share", block, pool.double().mean(1))
        self._means.update("frobenius", block, pairwise.frobenius)
        for name, rho in unary_consistency(clean_signals, corrupted_signals).items():
            self._means.update(name, block, rho)
