"""Convexity of a Pareto curve (prediction P-I): does the loss grow faster and faster as tokens go?"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise


@dataclass(frozen=True)
class Violation:
    """A point that lies above the chord of its neighbours, so that the curve bends the wrong way there."""

    at: float  # its place on the axis of reduction
    loss: float  # its loss
    chord: float  # what its neighbours' chord gives there
    sigmas: float  # by how many standard errors it is above; infinite if no error was given


@dataclass(frozen=True)
class ConvexityTest:
    """Whether no point bends the wrong way beyond the threshold, those that do, and how many inner points there are."""

    convex: bool
    violations: tuple[Violation, ...]
    points: int


def check_convexity(
    reduction: Sequence[float], loss: Sequence[float], n: int | None = None, threshold: float = 2.0
) -> ConvexityTest:
    """Hold every inner point of a curve against the chord of its neighbours.

    Args:
        reduction: What is saved: r, tokens, or GMACs taken away; strictly increasing.
        loss: 1 - accuracy or 1 - agreement, as a share in [0, 1].
        n: Images behind each point, for binomial errors; None takes the values as exact.
        threshold: Standard errors above the chord that count as a violation.

    Example:
        >>> check_convexity([0, 4, 8, 12], [0.0, 0.01, 0.05, 0.30]).convex
        True
        >>> [v.at for v in check_convexity([0, 4, 8, 12], [0.0, 0.3, 0.35, 0.36]).violations]
        [4, 8]
    """
    if len(reduction) != len(loss) or len(loss) < 3:
        raise ValueError(f"{len(reduction)} places and {len(loss)} losses: expected one each for three or more points")
    if any(b <= a for a, b in pairwise(reduction)):
        raise ValueError(f"reduction {list(reduction)}: expected strictly increasing places")
    tested = [_against_chord(reduction, loss, n, i) for i in range(1, len(loss) - 1)]
    bad = tuple(point for point in tested if point.loss > point.chord and point.sigmas > threshold)
    return ConvexityTest(not bad, bad, len(tested))


def _against_chord(reduction: Sequence[float], loss: Sequence[float], n: int | None, i: int) -> Violation:
    share = (reduction[i] - reduction[i - 1]) / (reduction[i + 1] - reduction[i - 1])
    chord = (1 - share) * loss[i - 1] + share * loss[i + 1]
    gap = loss[i] - chord
    if n is None:
        return Violation(reduction[i], loss[i], chord, math.inf if gap > 0 else 0.0)
    weights = ((1.0, i), (share - 1, i - 1), (-share, i + 1))
    error = math.sqrt(sum(w * w * loss[k] * (1 - loss[k]) / n for w, k in weights))
    sigmas = gap / error if error else math.copysign(math.inf, gap) if gap else 0.0
    return Violation(reduction[i], loss[i], chord, sigmas)
