"""What candidates are worth, as they are and after a quick calibration: from the journal, or worked out and paid."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

from catis.core.reduction import Reduction
from catis.macs import count_macs
from catis.tuning.allowance import Allowance
from catis.tuning.candidates import Candidate, Space
from catis.tuning.journal import Journal
from catis.tuning.objective import Objective
from catis.tuning.questions import Answer, Question, Trial, local_answers


class Values:
    """Distances of candidates from vanilla.

    Args:
        space: The candidates.
        objectives: By name of the images.
        journal: Where values are kept.
        allowance: How much may be done.
        answer: Works out distances; by default here, one after the other.
        trial: Calibrates for a moment; None where nothing is calibrated.

    Attributes:
        unreachable: Why the last candidate that cannot reach the budget cannot.
    """

    def __init__(
        self,
        space: Space,
        objectives: Mapping[str, Objective],
        journal: Journal,
        allowance: Allowance,
        answer: Answer | None,
        trial: Trial | None,
    ) -> None:
        self._space, self._journal, self._allowance, self._trial = space, journal, allowance, trial
        self._used = {name: objective.used for name, objective in objectives.items()}
        self._answer = answer or local_answers(objectives)
        self._paid: set[str] = set()
        self.unreachable = ""

    @property
    def calibrates(self) -> bool:
        """Whether candidates can be calibrated for a moment."""
        return self._trial is not None

    def of(self, candidates: Sequence[Candidate], images: str, views: int | None, free: bool = False) -> list[float]:
        """Distances as they are; infinite for a candidate that does not reach the budget.

        Args:
            candidates: To be compared.
            images: Name of the images.
            views: About how many views; None for all.
            free: Whether it costs nothing: something must be found, however short the time.

        Raises:
            OutOfTimeError: The work or the time that was allowed is used up.
        """
        reductions = [self._reduction(candidate) for candidate in candidates]
        questions = [Question(made, images, views) for made in reductions if made is not None]
        unknown = list({q.key: q for q in questions if not self._journal.knows(q.to_json())}.values())
        for question in () if free else questions:
            work = self._gmacs(question.reduction) * self._used[images](views)
            self._pay(question.key, work, known=question not in unknown)
        for question, value in zip(unknown, self._answer(unknown), strict=True):
            self._journal.keep(question.to_json(), value)
        known = iter([self._journal.recall(question.to_json()) for question in questions])
        return [math.inf if made is None else next(known) for made in reductions]

    def tried(self, candidate: Candidate) -> float:
        """Distance of a candidate after a quick calibration, which is paid for."""
        reduction = self._reduction(candidate)
        if reduction is None or self._trial is None:
            return math.inf
        question = _trial_of(reduction)
        self._pay(json.dumps(question, sort_keys=True), self._trial.gmacs, known=self._journal.knows(question))
        return self.calibrated(reduction)

    def calibrated(self, reduction: Reduction) -> float:
        """Distance of a reduction after a quick calibration, from the journal if it is there."""
        assert self._trial is not None
        question = _trial_of(reduction)
        if not self._journal.knows(question):
            self._journal.keep(question, self._trial.distance(reduction))
        return self._journal.recall(question)

    def _pay(self, key: str, gmacs: float, *, known: bool) -> None:
        """Take work from what is allowed, once for the same question."""
        self._allowance.spend(0 if key in self._paid else gmacs, known=known)
        self._paid.add(key)

    def _reduction(self, candidate: Candidate) -> Reduction | None:
        try:
            return self._space.reduction(candidate)
        except ValueError as error:
            self.unreachable = str(error)
            return None

    def _gmacs(self, reduction: Reduction) -> float:
        handle = self._space.handle
        return count_macs(handle.cost_under(reduction), handle.facts, reduction, overhead=True) / 1e9


def _trial_of(reduction: Reduction) -> dict[str, Any]:
    """What the journal knows a quick calibration by."""
    return {"reduction": reduction.to_json(), "images": "calibrated", "views": None}
