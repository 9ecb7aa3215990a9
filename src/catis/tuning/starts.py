"""What a search starts from: the best input size, then shape, method, options and gain there."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from catis.tuning.best import FEW, SOME, Best, Finding
from catis.tuning.candidates import SHAPES, Candidate, Space, variants
from catis.tuning.values import Values

NEAR = 1.3
"""How much farther from vanilla the second best method may be before calibration and still be looked at after it."""
GAINS = ((0.2, 1.0), (0.7, 0.7), (1.0, 1.0))
"""Gains of the size term to start from, of the first and last block; little was better early on the models measured."""
SOFTENS = (0.1, 0.2, 0.0)
"""How much softer attention may get as tokens go, to start from."""


class Starts:
    """Compares starts, and makes each that is better the best so far.

    Args:
        space: The candidates.
        worth: What they are worth.
        best: The best so far.
        levers: What may be chosen.
        methods: Names of the methods that may be chosen, the one to start from first.
        handicaps: Input sizes that may be chosen, the model's own (None) first, and how much nearer to vanilla a
            candidate must be at each.
    """

    def __init__(
        self,
        space: Space,
        worth: Values,
        best: Best,
        levers: Collection[str],
        methods: Sequence[str],
        handicaps: Mapping[int | None, float],
    ) -> None:
        self._space, self._worth, self._best, self._levers = space, worth, best, levers
        self._methods, self._handicaps = methods, handicaps

    def sizes(self) -> None:
        """Input sizes, calibrated for a moment, of what a budget alone does.

        They come first: under corruption they are worth more than all that follows, which depends on them, and the
        clock may end it at any time. However far from vanilla a size is before it is calibrated, it may be the best.
        """
        first = Candidate(self._methods[0])
        self._best.challenge(first)  # so that there is something to keep, whatever happens
        if "size" in self._levers and self._best.finding is not None:
            self._take_best_calibrated([replace(first, size=size) for size in self._handicaps])

    def methods(self) -> Finding | None:
        """Shapes, methods, and options and gains of the best of these; what comes out is what evolution starts from."""
        first = Candidate(self._methods[0]) if self._best.finding is None else self._best.finding.candidate
        shapes = SHAPES.values() if "schedule" in self._levers else [first.shape]
        starts = [replace(first, shape=shape) for shape in shapes]
        starts += [replace(first, kept=self._space.constant(first.size))] if "schedule" in self._levers else []
        ranked = self._best.ranked(starts, FEW, "shapes")[:2]
        ranked = self._best.ranked(
            [*ranked[1:], *(replace(c, method=name) for c in ranked[:1] for name in self._methods)], FEW, "methods"
        )
        if not ranked:
            return None
        self._best.challenge(ranked[0])
        leaders = [self._with_best_options(leader) for leader in self._leaders(ranked)]
        self._best.challenge(leaders[0])
        self._take_best_calibrated(leaders)
        return self._best.finding

    def _leaders(self, ranked: Sequence[Candidate]) -> list[Candidate]:
        """The best of the best method, and that of the second one unless it is far behind."""
        first: dict[str, Candidate] = {}
        for candidate in ranked:
            first.setdefault(candidate.method, candidate)
        best, *others = first.values()
        near = NEAR * self._best.distance(best, "search", FEW)
        return [best, *(other for other in others[:1] if self._best.distance(other, "search", FEW) <= near)]

    def _with_best_options(self, candidate: Candidate) -> Candidate:
        """A candidate with the best of a few options, then with the best gain."""
        best = self._best.ranked(variants(candidate, self._levers), FEW, "options of the method")[0]
        if "gain" not in self._levers:
            return best
        best = self._best.ranked([replace(best, gain=gain) for gain in GAINS], SOME, "gain of the size term")[0]
        return self._best.ranked([replace(best, soften=soften) for soften in SOFTENS], SOME, "softness of attention")[0]

    def _take_best_calibrated(self, candidates: Sequence[Candidate]) -> None:
        """Go on from the candidate that is best once it is calibrated for a moment; without calibration, as it is.

        Methods and input sizes differ in how much calibrated weights make good: what was evicted or never seen is gone.
        A better one is taken as soon as it is known, for the clock may end it at any time.
        """
        best = candidates[0]
        self._best.go_on_from(best)
        if not self._worth.calibrates:
            self._best.distances(candidates, "search", SOME)  # all at once: a cluster works them out side by side
        for other in candidates[1:]:
            self._best.say("the best starts" + ", calibrated for a moment" * self._worth.calibrates)
            if all(old > new for old, new in zip(self._as_starts(best), self._as_starts(other), strict=True)):
                best = other
                self._best.go_on_from(best)

    def _as_starts(self, candidate: Candidate) -> Iterable[float]:
        """Its distance once it is calibrated for a moment, or as it is on all images; more if vanilla is less sure."""
        handicap = self._handicaps.get(candidate.size, 1.0)
        if self._worth.calibrates:
            yield handicap * self._worth.tried(candidate)
            return
        yield handicap * self._best.distance(candidate, "search", SOME)
        yield handicap * self._best.distance(candidate, "choose", None)
