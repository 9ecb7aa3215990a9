"""Spearman's rank correlation for batches, with ties and masks: exact, and fast enough for all pairs of tokens."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor


class Sorted(NamedTuple):
    """One sort of (B, M) values, from which ranks within any subset follow without sorting again."""

    order: Tensor  # (B, M) index of the value at each sorted place
    first: Tensor  # (B, M) sorted place of the first value equal to this one
    last: Tensor  # (B, M) sorted place of the last value equal to this one


def sort_once(values: Tensor) -> Sorted:
    """Sort each row of (B, M) and find the runs of equal values."""
    key, order = _sort(values)
    place = torch.arange(key.shape[1], device=key.device, dtype=torch.int32).expand_as(key)
    starts = torch.ones_like(key, dtype=torch.bool)
    starts[:, 1:] = key[:, 1:] != key[:, :-1]
    ends = starts.roll(-1, 1)  # the first entry always starts a run, so the last one always ends one
    first = torch.where(starts, place, 0).cummax(1).values
    last = torch.where(ends, place, key.shape[1]).flip(1).cummin(1).values.flip(1)
    return Sorted(order, first.long(), last.long())


def average_ranks(values: Tensor | Sorted, mask: Tensor | None = None) -> Tensor:
    """Ranks from 1, equal values sharing their mean rank, as scipy's `rankdata` gives them.

    Args:
        values: (B, M) values, or their `sort_once`.
        mask: (B, M) bool: rank among these entries only; the others get 0.

    Returns:
        (B, M) float64 ranks.

    Example:
        >>> average_ranks(torch.tensor([[3.0, 1.0, 3.0, 2.0]]))
        tensor([[3.5000, 1.0000, 3.5000, 2.0000]], dtype=torch.float64)
    """
    runs = values if isinstance(values, Sorted) else sort_once(values)
    if mask is None:
        ranks = (runs.first + runs.last).double() / 2 + 1
        return torch.empty_like(ranks).scatter_(1, runs.order, ranks)
    inside = mask.gather(1, runs.order)
    count = inside.cumsum(1)
    before = (count - inside.long()).gather(1, runs.first)
    ranks = (before + count.gather(1, runs.last) + 1).double() / 2 * inside
    return torch.empty_like(ranks).scatter_(1, runs.order, ranks)


def correlate_ranks(ranks_a: Tensor, ranks_b: Tensor, mask: Tensor | None = None) -> Tensor:
    """(B,) Pearson correlation of two (B, M) rank vectors (Eq. spearman); NaN where one of them is constant."""
    count = ranks_a.new_full(ranks_a.shape[:1], ranks_a.shape[1]) if mask is None else mask.sum(1).double()
    middle = (count[:, None] + 1) / 2  # mean of the ranks 1 .. m, ties or not
    if mask is not None:
        middle = middle * mask
    a, b = ranks_a - middle, ranks_b - middle
    spread = ((a * a).sum(1) * (b * b).sum(1)).sqrt()
    return torch.where(spread > 0, (a * b).sum(1) / spread, torch.nan).clamp(-1.0, 1.0)


def spearman(a: Tensor, b: Tensor, mask: Tensor | None = None) -> Tensor:
    """Spearman's rho of each row of two (B, M) tensors, over the entries of a (B, M) mask if one is given.

    Returns:
        (B,) float64; NaN, as scipy says it, where a row is constant, holds NaN or has fewer than two entries.

    Example:
        >>> spearman(torch.tensor([[1.0, 2.0, 3.0]]), torch.tensor([[1.0, 8.0, 4.0]]))
        tensor([0.5000], dtype=torch.float64)
    """
    if a.shape != b.shape or a.ndim != 2:
        raise ValueError(f"shapes {tuple(a.shape)} and {tuple(b.shape)}: expected two equal (B, M)")
    rho = correlate_ranks(average_ranks(a, mask), average_ranks(b, mask), mask)
    return rho.masked_fill(has_nan(a, mask) | has_nan(b, mask), torch.nan)


def has_nan(values: Tensor, mask: Tensor | None = None) -> Tensor:
    """(B,) whether a row of (B, M) holds NaN, where the mask looks."""
    missing = values.isnan()
    return (missing if mask is None else missing & mask).any(1)


def _sort(values: Tensor) -> tuple[Tensor, Tensor]:
    """Sorted keys, equal exactly where values are, and the order that sorts them."""
    if values.is_cuda or values.dtype != torch.float32:
        ordered = torch.sort(values, dim=1, stable=True)
        return ordered.values, ordered.indices
    # On a CPU numpy's vectorised integer sort is nine times torch.sort: pack value and index into one int64.
    bits = (values.detach() + 0.0).contiguous().view(torch.int32)  # + 0.0: the two zeros are one value
    monotone = bits ^ ((bits >> 31) & 0x7FFFFFFF)
    packed = (monotone.long() << 32) | torch.arange(values.shape[1])
    packed = torch.from_numpy(np.sort(packed.numpy(), axis=1))
    return packed >> 32, packed & 0xFFFFFFFF
