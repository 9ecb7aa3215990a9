"""Searches the candidates at one budget: starts, then evolution of the numbers, then exchanges between blocks.

A candidate is looked at on few images first. What is found on the images that are searched on is believed only if the
images that choose say so too.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from catis.tuning.allowance import Allowance, OutOfTimeError
from catis.tuning.best import SOME, Best, Finding, Tell
from catis.tuning.candidates import OPERATORS, Candidate, Space
from catis.tuning.evolution import evolve
from catis.tuning.journal import Journal
from catis.tuning.objective import Objective
from catis.tuning.questions import Answer, Trial
from catis.tuning.starts import Starts
from catis.tuning.values import Values


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
        self._best = Best(space, self._worth, tell)
        self._start: Finding | None = None
        self.interrupted = False

    def run(self, sizes: Mapping[int | None, float]) -> Finding:
        """Search until all is done or the allowance is used up, and return the best.

        Args:
            sizes: Input sizes that may be chosen, the model's own (None) first, and how much nearer to vanilla a
                candidate must be at each.

        Raises:
            ValueError: The budget cannot be reached by any start.
        """
        starts = Starts(self.space, self._worth, self._best, self.levers, self._methods, sizes)
        try:
            starts.sizes()
            if self._removes:
                self._start = starts.methods()
                self._evolve()
                self._exchange()
                self._other_operators()
        except (OutOfTimeError, KeyboardInterrupt) as end:
            self.interrupted = isinstance(end, KeyboardInterrupt)
            if self.interrupted and self._best.finding is None:
                raise
        if self._best.finding is None:
            raise ValueError(self._worth.unreachable)
        return self._best.finding if self.interrupted else self._confirmed(self._best.finding)

    def _confirmed(self, best: Finding) -> Finding:
        """What was found, or the start that it came from if that is nearer once both are calibrated for a moment.

        The search looks at models as they are; what is gained there may be lost again in calibration.
        """
        if not self._worth.calibrates or self._start is None or self._start.reduction == best.reduction:
            return best
        self._best.say("what was found against its start, calibrated for a moment")
        return min(best, self._start, key=lambda finding: self._worth.calibrated(finding.reduction))

    def take(self, candidate: Candidate) -> Finding:
        """A candidate as it is, without a search.

        Raises:
            ValueError: It cannot reach the budget.
        """
        return self._best.found(candidate, self._best.distance(candidate, "choose", None))

    @property
    def _removes(self) -> bool:
        """Whether anything is left to search: an input may be so small that the budget leaves all of its tokens."""
        if self._best.finding is None:
            return True
        reduction = self._best.finding.reduction
        return self.space.counts(reduction)[-1] < self.space.patches(reduction.input_size)

    def _evolve(self) -> None:
        """CMA-ES over shape, gain and Theta together, from the best candidate; a third of what is left of the work.

        In two of four runs measured it found little or nothing in minutes, and exchanges then found more within one; in
        the other two it was the other way round or the clock ended it before them. So both get their time.
        """
        if self._best.finding is None:
            return
        until = self.allowance.share + (1 - self.allowance.share) / 3

        def values(candidates: Sequence[Candidate]) -> list[float]:
            return self._best.distances(candidates, "search", SOME)

        generations = evolve(self._best.finding.candidate, values, self.levers, self.space.depth, self.seed)
        for generation, candidate in enumerate(generations):
            self._best.say(f"evolution, generation {generation + 1}")
            self._best.challenge(candidate)
            if self.allowance.share >= until:
                return

    def _exchange(self) -> None:
        """Move tokens from one block to another, as long as that helps."""
        if "schedule" not in self.levers or self._best.finding is None:
            return
        step = max(1, self.space.patches(None) // 32)
        while step >= 1:
            accepted = [self._best.challenge(other) for other in self._exchanges(step)]
            step = step if any(accepted) else step // 2

    def _exchanges(self, step: int) -> Iterable[Candidate]:
        for block in range(self.space.depth - self.space.head_only):
            before = self._best.finding
            for more in (step, -step):
                assert before is not None
                self._best.say(f"exchanges of {step} tokens")
                other = self.space.moved(before.candidate, block, more)
                if other is not None:
                    yield other

    def _other_operators(self) -> None:
        """Another method in a third of the blocks, if that helps, also once it is calibrated."""
        if len(self._methods) == 1 or self._best.finding is None:
            return
        third = math.ceil(self.space.depth / 3)
        for start in range(0, self.space.depth, third):
            blocks = range(start, min(start + third, self.space.depth))
            for name in self._methods:
                best = self._best.finding
                self._best.say("methods per block")
                others = {**dict(best.candidate.others), **dict.fromkeys(blocks, name)}
                mixed = replace(best.candidate, others=tuple(sorted(others.items())))
                better = name != best.candidate.method and self._best.challenge(mixed)
                if better and self._worth.calibrates and self._worth.tried(mixed) >= self._worth.tried(best.candidate):
                    self._best.finding = best
