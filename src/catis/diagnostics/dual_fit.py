"""Fits the dual-channel recurrence to a run with merges and evictions and to its replays with one of them only."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import optimize

from catis.diagnostics.amplifier import Channel, Floats, recurrence
from catis.diagnostics.amplifier_fit import AmplifierFit, check_path, fit_amplifier, r_squared


@dataclass(frozen=True)
class DualFit:
    """Eq. dual-channel, fitted to three runs at once: both channels, merges alone, evictions alone."""

    merge: Channel  # seed and gain of a merge
    evict: Channel  # seed and gain of an eviction
    r_squared: dict[str, float]  # of this joint fit, per run: "both", "merge_only", "evict_only"
    merge_alone: AmplifierFit  # amplifier fitted to the merges alone
    evict_alone: AmplifierFit  # amplifier fitted to the evictions alone
    # How well the two separate fits, put together by Eq. dual-channel with nothing refitted, give the run with both;
    # far below 0 if the channels' feedback does not add up as the equation has it.
    additive_r_squared: float


def fit_dual(
    both: Sequence[float] | Floats,
    merge_only: Sequence[float] | Floats,
    evict_only: Sequence[float] | Floats,
    merged: Sequence[float] | Floats,
    evicted: Sequence[float] | Floats,
) -> DualFit:
    """Least squares of Eq. dual-channel on the distortion after each step, of a run with both channels and two replays.

    A single run cannot tell the channels apart when both amounts are constant over depth: hence the replays.
    """
    alone = fit_amplifier(merge_only, merged), fit_amplifier(evict_only, evicted)
    runs = [check_path(both, merged)[0], check_path(merge_only, merged)[0], check_path(evict_only, evicted)[0]]
    amounts = [list(merged), list(evicted)]
    scale = max(float(np.abs(run).max()) for run in runs) or 1.0

    def residuals(x: Floats) -> Floats:
        return np.concatenate([(a - b) / scale for a, b in zip(runs, _dual_paths(x, amounts), strict=True)])

    # Gains add up in the equation, so the joint fit starts from half of what each run alone asks for.
    start = [value for fit in alone for value in (fit.channel.seed, fit.channel.gain / 2)]
    size = np.maximum(np.abs(start), 1e-12)
    solution = optimize.least_squares(lambda x: residuals(x * size), np.array(start) / size, max_nfev=2000)
    best = solution.x * size
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
    return r_squared(float(((measured - predicted) ** 2).sum()), float(((measured - measured.mean()) ** 2).sum()))
