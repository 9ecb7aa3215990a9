"""Tunes a model at one budget: searches, calibrates the best that was found, and judges it."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any

from torch import nn

from catis import hosts
from catis.calibration.run import calibrated_weights
from catis.calibration.views import FEWEST, views
from catis.core.reduction import Reduction
from catis.data.preprocessing import Preprocessing
from catis.hosts import Handle
from catis.hosts.correction import Correction
from catis.macs import count_macs
from catis.tuning.allowance import Allowance
from catis.tuning.best import Finding
from catis.tuning.candidates import Candidate, Space
from catis.tuning.costs import TRIED, Cost, affordable, enough_rows
from catis.tuning.journal import Journal
from catis.tuning.objective import Objective, Split
from catis.tuning.questions import Answer, Trial
from catis.tuning.search import Search
from catis.tuning.sizes import sizes_left, sizes_to_try

SEARCHED = 256
"""Images that the search looks at, at the most; the calibration takes all."""


@dataclass(frozen=True)
class Images:
    """The images of a tuning, and the vanilla model's answers to them."""

    split: Split  # who fits, who chooses, who judges
    preprocessing: Preprocessing  # how they were prepared
    search: Objective  # compares on those that fit
    choose: Objective  # compares on those that choose
    judge: Objective  # compares on those that judge, clean, with vanilla at its own input size

    @classmethod
    def of(
        cls,
        model: nn.Module,
        split: Split,
        preprocessing: Preprocessing,
        batch_size: int,
        seed: int,
        levers: Collection[str],
    ) -> Images:
        """Run the vanilla model on all of them."""
        how: dict[str, Any] = {"batch_size": batch_size, "seed": seed}
        chosen = how | {"sizes": sizes_to_try(hosts.find(model), levers)}
        return cls(
            split,
            preprocessing,
            Objective(model, split.fit[:SEARCHED], preprocessing, **chosen),
            Objective(model, split.choose, preprocessing, **chosen),
            Objective(model, split.judge, preprocessing, damaged=False, **how),
        )


@dataclass(frozen=True)
class Tuned:
    """What came out at one budget."""

    finding: Finding  # the best candidate
    correction: Correction | None  # calibrated weights, if they help
    before: float  # distance of the first candidate, what a budget alone does, on the images that choose, clean
    after: float  # that of what came out
    share: float  # multiply-adds, as a share of vanilla's
    minutes: float  # it took
    stopped_by_clock: bool  # whether the machine was too slow for the work that was planned
    interrupted: bool  # whether Ctrl-C ended it
    fitted: int = 0  # images that the calibration was fitted on
    rounds: int = 1  # how often each of them was seen


def tune_at(
    model: nn.Module,
    budget: float,
    images: Images,
    journal: Journal,
    allowance: Allowance,
    *,
    levers: Collection[str],
    methods: Sequence[str],
    seed: int,
    batch_size: int,
    tell: Callable[[str, float], None] | None = None,
    answer: Answer | None = None,
    fixed: Candidate | None = None,
) -> Tuned:
    """The best that a model can be at a budget; with `fixed`, that candidate, calibrated and judged.

    Raises:
        ValueError: The budget cannot be reached.
    """
    handle, started = hosts.find(model), time.monotonic()
    space, split = Space(handle, budget), images.split
    vanilla = macs_of(handle, Reduction.none()) / 1e9
    cost = Cost(vanilla, budget)
    fitted, rounds = affordable(split, cost, allowance) if "calibration" in levers else (0, 1)
    how: dict[str, Any] = {"levers": levers, "methods": methods, "seed": seed, "tell": tell, "answer": answer}
    if fitted >= 2 * FEWEST and enough_rows(handle, min(TRIED, fitted)):
        how["trial"] = _trial(model, images, min(TRIED, fitted), cost, seed, batch_size)
    if fitted:
        trials = 2 * how["trial"].gmacs if "trial" in how else 0.0
        allowance.reserve(cost.gmacs(fitted * rounds, len(split.choose)) + trials)
    search = Search(space, images.search, images.choose, journal, allowance, **how)
    if fixed is None:
        finding = search.run(sizes_left(images.search, images.choose, space.reduction(Candidate(methods[0]))))
    else:
        finding = search.take(fixed)
    correction, interrupted = None, search.interrupted
    seen = max(1, int(rounds * allowance.pace))  # on a slow machine, less often
    if fitted and not interrupted:
        try:
            correction = _calibrate(model, finding, images, fitted, seen, seed, batch_size, tell)
        except KeyboardInterrupt:
            interrupted = True
    before = images.choose.clean(space.reduction(Candidate()))
    after = images.choose.clean(finding.reduction, correction)
    share, minutes = macs_of(handle, finding.reduction) / 1e9 / vanilla, (time.monotonic() - started) / 60
    ended = allowance.stopped_by_clock, interrupted, fitted, seen
    return Tuned(finding, correction, before, after, share, minutes, *ended)


def _trial(model: nn.Module, images: Images, fitted: int, cost: Cost, seed: int, batch_size: int) -> Trial:
    """A quick calibration on the first images, judged on others that it has not seen."""
    split, held_out = images.split, images.split.choose[: max(FEWEST, fitted // 2)]
    batches = list(views(split.fit[:fitted], images.preprocessing, batch_size, seed, held_out=held_out, thorough=True))
    unseen = split.fit[fitted:SEARCHED] if len(split.fit) >= 2 * fitted else split.choose
    how: dict[str, Any] = {"batch_size": batch_size, "seed": seed, "sizes": list(images.search.handicaps)}
    judge = Objective(model, unseen, images.preprocessing, restored=True, **how)

    def distance(reduction: Reduction) -> float:
        weights = calibrated_weights(model, reduction, batches).weights
        return judge.balanced(reduction, Correction(weights, reduction) if weights else None)

    return Trial(cost.gmacs(fitted, len(held_out)), distance)


def macs_of(handle: Handle, reduction: Reduction) -> int:
    """Multiply-adds of a model under a reduction, whatever is on it."""
    return count_macs(handle.cost_under(reduction), handle.facts, reduction)


def _calibrate(
    model: nn.Module,
    finding: Finding,
    images: Images,
    fitted: int,
    rounds: int,
    seed: int,
    batch_size: int,
    tell: Callable[[str, float], None] | None,
) -> Correction | None:
    """Calibrated weights, if the images that choose say that they help."""
    split = images.split
    how: dict[str, Any] = {"held_out": split.choose, "rounds": rounds, "thorough": True}
    batches = views(split.fit[:fitted], images.preprocessing, batch_size, seed, **how)

    def progress(done: int, total: int) -> None:
        if tell is not None:
            tell(f"calibrating, block {done} of {total}", finding.distance)

    outcome = calibrated_weights(model, finding.reduction, batches, progress=progress)
    if not outcome.weights:
        return None
    return Correction.fitted(outcome.weights, finding.reduction, hosts.find(model).vanilla_weights)
