"""Searches the candidates at one budget: starts, then evolution of the numbers, then exchanges between blocks.

A candidate is looked at on few images first. What is found on the images that are searched on is believed only if the
images that choose say so too.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from catis.core.reduction import Reduction
from catis.tuning.allowance import Allowance, OutOfTimeError
from catis.tuning.candidates import OPERATORS, SHAPES, Candidate, Space, variants
from catis.tuning.evolution import evolve
from catis.tuning.journal import Journal
from catis.tuning.objective import Objective
from catis.tuning.questions import Answer, Trial
from catis.tuning.values import Values

FEW, SOME = 192, 384
"""Views that starts, and then evolution, look at: with fewer, chance decides between neighbours."""
MARGIN = 0.99
"""What is found must be this much better on the images that choose, or it is chance."""
NEAR = 1.3
"""How much farther from vanilla the second best method may be before calibration and still be looked at after it."""
GAINS = (1.0, 0.75, 0.6)
"""Gains of the size term to start from; on the models that were measured less than 1 was better."""
Tell = Callable[[str, float], None]
"""Called with what is being done and the best distance so far."""


@dataclass(frozen=True)
class Finding:
    """A candidate and what it is worth."""

    candidate: Candidate  # the choice
    reduction: Reduction  # what it stands for
    distance: float  # from vanilla, on the images that choose


class Search:
    """Finds the best candidate of a space within an allowance.

    Args:
        space: The candidates.
        search: On the images that are searched on.
        choose: On the images that accept.
        journal: Where values are kept.
        allowance: How much may be done.
        levers: What may be chosen.
        methods: Names of the methods that may be chosen, the one to start from first.
        seed: Of the evolution.
        tell: Told of progress.
        answer: Works out distances; by default here, one after the other.
        trial: Calibrates for a moment, to compare methods by what they are worth afterwards.
    """

    def __init__(
        self,
        space: Space,
        search: Objective,
        choose: Objective,
        journal: Journal,
        allowance: Allowance,
        *,
        levers: Collection[str],
        methods: Sequence[str] = OPERATORS,
        seed: int = 0,
        tell: Tell | None = None,
        answer: Answer | None = None,
        trial: Trial | None = None,
    ) -> None:
        self.space, self.allowance, self.levers, self.seed = space, allowance, levers, seed
        self._methods = methods if "operator" in levers else methods[:1]
        self._worth = Values(space, {"search": search, "choose": choose}, journal, allowance, answer, trial)
        self._tell = tell
        self.best: Finding | None = None
        self._start: Finding | None = None
        self._handicaps: Mapping[int | None, float] = {}
        self.interrupted = False

    def run(self, sizes: Mapping[int | None, float]) -> Finding:
        """Search until all is done or the allowance is used up, and return the best.

        Args:
            sizes: Input sizes that may be chosen, the model's own (None) first, and how much nearer to vanilla a
                candidate must be at each.

        Raises:
            ValueError: The budget cannot be reached by any start.
        """
        self._handicaps = sizes
        try:
            self._sizes(sizes)
            if self._removes:
                self._starts()
                self._evolve()
                self._exchange()
                self._other_operators()
        except (OutOfTimeError, KeyboardInterrupt) as end:
            self.interrupted = isinstance(end, KeyboardInterrupt)
            if self.interrupted and self.best is None:
                raise
        if self.best is None:
            raise ValueError(self._worth.unreachable)
        return self.best if self.interrupted else self._confirmed(self.best)

    def _confirmed(self, best: Finding) -> Finding:
        """What was found, or the start that it came from if that is nearer once both are calibrated for a moment.

        The search looks at models as they are; what is gained there may be lost again in calibration.
        """
        if not self._worth.calibrates or self._start is None or self._start.reduction == best.reduction:
            return best
        self._say("what was found against its start, calibrated for a moment")
        return min(best, self._start, key=lambda finding: self._worth.calibrated(finding.reduction))

    def take(self, candidate: Candidate) -> Finding:
        """A candidate as it is, without a search.

        Raises:
            ValueError: It cannot reach the budget.
        """
        reduction = self.space.reduction(candidate)
        return Finding(candidate, reduction, self._value(candidate, "choose", None))

    def _sizes(self, sizes: Iterable[int | None]) -> None:
        """Input sizes, calibrated for a moment, of what a budget alone does.

        They come first: under corruption they are worth more than all that follows, which depends on them, and the
        clock may end it at any time. However far from vanilla a size is before it is calibrated, it may be the best.
        """
        first = Candidate(self._methods[0])
        self._accept(first)  # so that there is something to keep, whatever happens
        if "size" in self.levers and self.best is not None:
            self._take_best_calibrated([replace(first, size=size) for size in sizes])

    @property
    def _removes(self) -> bool:
        """Whether anything is left to search: an input may be so small that the budget leaves all of its tokens."""
        if self.best is None:
            return True
        reduction = self.best.reduction
        return self.space.counts(reduction)[-1] < self.space.patches(reduction.input_size)

    def _starts(self) -> None:
        """Shapes, methods, and options and gains of the best of these."""
        first = Candidate(self._methods[0]) if self.best is None else self.best.candidate
        shapes = SHAPES.values() if "schedule" in self.levers else [first.shape]
        starts = [replace(first, shape=shape) for shape in shapes]
        starts += [replace(first, kept=self.space.constant(first.size))] if "schedule" in self.levers else []
        ranked = self._rank(starts, FEW, "shapes")[:2]
        ranked = self._rank(
            [*ranked[1:], *(replace(c, method=name) for c in ranked[:1] for name in self._methods)], FEW, "methods"
        )
        if not ranked:
            return
        self._accept(ranked[0])
        leaders = [self._with_best_options(leader) for leader in self._leaders(ranked)]
        self._accept(leaders[0])
        self._take_best_calibrated(leaders)
        self._start = self.best

    def _leaders(self, ranked: Sequence[Candidate]) -> list[Candidate]:
        """The best of the best method, and that of the second one unless it is far behind."""
        first: dict[str, Candidate] = {}
        for candidate in ranked:
            first.setdefault(candidate.method, candidate)
        best, *others = first.values()
        near = NEAR * self._value(best, "search", FEW)
        return [best, *(other for other in others[:1] if self._value(other, "search", FEW) <= near)]

    def _with_best_options(self, candidate: Candidate) -> Candidate:
        """A candidate with the best of a few options, then with the best gain."""
        best = self._rank(variants(candidate, self.levers), FEW, "options of the method")[0]
        if "gain" not in self.levers:
            return best
        return self._rank([replace(best, gain=gain) for gain in GAINS], SOME, "gain of the size term")[0]

    def _take(self, candidate: Candidate) -> None:
        """Go on from a candidate, whatever it is worth before it is calibrated; that costs nothing, it was chosen."""
        if self.best is None or candidate != self.best.candidate:
            (distance,) = self._worth.of([candidate], "choose", None, free=True)
            self.best = Finding(candidate, self.space.reduction(candidate), distance)

    def _take_best_calibrated(self, candidates: Sequence[Candidate]) -> None:
        """Go on from the candidate that is best once it is calibrated for a moment; without calibration, as it is.

        Methods and input sizes differ in how much calibrated weights make good: what was evicted or never seen is gone.
        A better one is taken as soon as it is known, for the clock may end it at any time.
        """
        best = candidates[0]
        self._take(best)
        if not self._worth.calibrates:
            self._values(candidates, "search", SOME)  # all at once: a cluster works them out side by side
        for other in candidates[1:]:
            self._say("the best starts" + ", calibrated for a moment" * self._worth.calibrates)
            if all(old > new for old, new in zip(self._as_starts(best), self._as_starts(other), strict=True)):
                best = other
                self._take(best)

    def _as_starts(self, candidate: Candidate) -> Iterable[float]:
        """Its distance once it is calibrated for a moment, or as it is on all images; more if vanilla is less sure."""
        handicap = self._handicaps.get(candidate.size, 1.0)
        if self._worth.calibrates:
            yield handicap * self._worth.tried(candidate)
            return
        yield handicap * self._value(candidate, "search", SOME)
        yield handicap * self._value(candidate, "choose", None)

    def _evolve(self) -> None:
        """CMA-ES over shape, gain and Theta together, from the best candidate; half of what is left of the work."""
        if self.best is None:
            return
        until = self.allowance.share + (1 - self.allowance.share) / 2

        def values(candidates: Sequence[Candidate]) -> list[float]:
            return self._values(candidates, "search", SOME)

        generations = evolve(self.best.candidate, values, self.levers, self.space.depth, self.seed)
        for generation, candidate in enumerate(generations):
            self._say(f"evolution, generation {generation + 1}")
            self._accept(candidate)
            if self.allowance.share >= until:
                return

    def _exchange(self) -> None:
        """Move tokens from one block to another, as long as that helps."""
        if "schedule" not in self.levers or self.best is None:
            return
        step = max(1, self.space.patches(None) // 32)
        while step >= 1:
            accepted = [self._accept(other) for other in self._exchanges(step)]
            step = step if any(accepted) else step // 2

    def _exchanges(self, step: int) -> Iterable[Candidate]:
        for block in range(self.space.depth - self.space.head_only):
            before = self.best
            for more in (step, -step):
                assert before is not None
                self._say(f"exchanges of {step} tokens")
                other = self.space.moved(before.candidate, block, more)
                if other is not None:
                    yield other

    def _other_operators(self) -> None:
        """Another method in a third of the blocks, if that helps, also once it is calibrated."""
        if len(self._methods) == 1 or self.best is None:
            return
        third = math.ceil(self.space.depth / 3)
        for start in range(0, self.space.depth, third):
            blocks = range(start, min(start + third, self.space.depth))
            for name in self._methods:
                best = self.best
                self._say("methods per block")
                others = {**dict(best.candidate.others), **dict.fromkeys(blocks, name)}
                mixed = replace(best.candidate, others=tuple(sorted(others.items())))
                better = name != best.candidate.method and self._accept(mixed)
                if better and self._worth.calibrates and self._worth.tried(mixed) >= self._worth.tried(best.candidate):
                    self.best = best

    def _rank(self, candidates: Sequence[Candidate], views: int, what: str) -> list[Candidate]:
        """Candidates in order of their distance on about so many views."""
        self._say(what)
        values = self._values(candidates, "search", views)
        ranked = sorted(zip(values, range(len(candidates)), strict=True))
        return [candidates[place] for value, place in ranked if math.isfinite(value)]

    def _accept(self, candidate: Candidate) -> bool:
        """Take a candidate for the best one, if it is better on the images that choose."""
        if self.best is not None and self._value(candidate, "search", SOME) >= self._value(
            self.best.candidate, "search", SOME
        ):
            return False
        value = self._value(candidate, "choose", None)
        if not math.isfinite(value) or (self.best is not None and value >= MARGIN * self.best.distance):
            return False
        self.best = Finding(candidate, self.space.reduction(candidate), value)
        return True

    def _value(self, candidate: Candidate, images: str, views: int | None) -> float:
        return self._values([candidate], images, views)[0]

    def _values(self, candidates: Sequence[Candidate], images: str, views: int | None) -> list[float]:
        return self._worth.of(candidates, images, views, free=self.best is None)

    def _say(self, what: str) -> None:
        if self._tell is not None:
            self._tell(what, math.inf if self.best is None else self.best.distance)
