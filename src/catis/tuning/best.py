"""The best candidate so far: how candidates are compared, and what one must show to take its place."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from catis.core.reduction import Reduction
from catis.tuning.candidates import Candidate, Space
from catis.tuning.values import Values

FEW, SOME = 192, 384
"""Views that starts, and then evolution, look at: with fewer, chance decides between neighbours."""
MARGIN = 0.99
"""What is found must be this much better on the images that choose, or it is chance."""
Tell = Callable[[str, float], None]
"""Called with what is being done and the best distance so far."""


@dataclass(frozen=True)
class Finding:
    """A candidate and what it is worth."""

    candidate: Candidate  # the choice
    reduction: Reduction  # what it stands for
    distance: float  # from vanilla, on the images that choose


class Best:
    """The best candidate so far.

    Args:
        space: The candidates.
        worth: What they are worth.
        tell: Told of progress.

    Attributes:
        finding: The candidate and what it is worth; None before the first.
    """

    def __init__(self, space: Space, worth: Values, tell: Tell | None) -> None:
        self._space, self._worth, self._tell = space, worth, tell
        self.finding: Finding | None = None

    def found(self, candidate: Candidate, distance: float) -> Finding:
        """A candidate with what it stands for."""
        return Finding(candidate, self._space.reduction(candidate), distance)

    def challenge(self, candidate: Candidate) -> bool:
        """Take a candidate for the best one if it is better, on the images that choose as well."""
        best = self.finding
        if best is not None and self.distance(candidate) >= self.distance(best.candidate):
            return False
        distance = self.distance(candidate, "choose", None)
        if not math.isfinite(distance) or (best is not None and distance >= MARGIN * best.distance):
            return False
        self.finding = self.found(candidate, distance)
        return True

    def go_on_from(self, candidate: Candidate) -> None:
        """Take a candidate, whatever it is worth before it is calibrated; that costs nothing, it was chosen."""
        if self.finding is None or candidate != self.finding.candidate:
            (distance,) = self._worth.of([candidate], "choose", None, free=True)
            self.finding = self.found(candidate, distance)

    def ranked(self, candidates: Sequence[Candidate], views: int, what: str) -> list[Candidate]:
        """Candidates in order of their distance on about so many views, without those that miss the budget."""
        self.say(what)
        distances = self.distances(candidates, views=views)
        order = sorted(zip(distances, range(len(candidates)), strict=True))
        return [candidates[place] for distance, place in order if math.isfinite(distance)]

    def distance(self, candidate: Candidate, images: str = "search", views: int | None = SOME) -> float:
        """How far a candidate is from vanilla, as it is."""
        return self.distances([candidate], images, views)[0]

    def distances(
        self, candidates: Sequence[Candidate], images: str = "search", views: int | None = SOME
    ) -> list[float]:
        """How far candidates are from vanilla, as they are; free before there is any, for something must be found."""
        return self._worth.of(candidates, images, views, free=self.finding is None)

    def say(self, what: str) -> None:
        """Tell of what is being done."""
        if self._tell is not None:
            self._tell(what, math.inf if self.finding is None else self.finding.distance)
