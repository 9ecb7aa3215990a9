"""Judges what a tuning found, and the controls at the same cost, on images that chose nothing: rows of its table."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from torch import Tensor, nn

from catis.calibration.run import calibrated_weights
from catis.calibration.views import views
from catis.core.budget import removed_from
from catis.core.reduction import Reduction
from catis.errors import CatisError
from catis.hosts import Handle
from catis.hosts.correction import Correction
from catis.recipes import Made, Recipe
from catis.tuning.adaptive import adaptive_shape
from catis.tuning.at_budget import Images, Tuned, macs_of
from catis.tuning.candidates import SAME_SHARE, Candidate, Space
from catis.tuning.controls import controls_at
from catis.tuning.diagnostic import choose_theta
from catis.tuning.result import Point, Tuning

MORE_CONTROLS = ("calibrated", "diagnostic")
"""Rows that cost time and are made when they are asked for: every control with calibrated weights of its own, and CATIS
with the Theta that the paper's procedure chooses."""


def paper_theta(handle: Handle, pair: tuple[Tensor, Tensor], budget: float) -> dict[str, Any]:
    """What the paper's procedure chooses for CATIS, at the same share per block."""
    space = Space(handle, budget)
    choice = choose_theta(
        handle.model, *pair, removed_from(space.patches(None), space.kept(Candidate(shape=SAME_SHARE)))
    )
    told = {"rho_s": choice.rho_s, "default_rho_s": choice.default_rho_s, "allowed": choice.allowed, "n": choice.n}
    return {"options": choice.options, **told}


def adaptive_rule(tuning: Tuning, handle: Handle, pair: tuple[Tensor, Tensor]) -> Candidate:
    """ToMe with the schedule of the rule "spend where rho_s is high"; what it follows is kept with the tuning.

    Raises:
        CatisError: No ranking survives in any block, so that the rule says nothing.
    """
    shape = adaptive_shape(handle.model, *pair)
    tuning.rho_s = {"pairwise": shape.pairwise, "fused": shape.fused}
    return Candidate("tome", shape=shape.weights)


def add_tuned(
    tuning: Tuning, handle: Handle, budget: float, tuned: Tuned, images: Images, made: Made, alone: bool
) -> None:
    """Judge what came out at a budget, without calibrated weights too, and add its recipe and its points."""
    reduction, correction = tuned.finding.reduction, tuned.correction
    row = _Judged(handle, images, budget)
    point = replace(row.point("tuned", reduction, correction), recipe="." if alone else f"{budget:g}")
    made = replace(
        made,
        objective_before=tuned.before,
        objective_after=tuned.after,
        held_out_kl=point.kl,
        held_out_agreement=None if point.agreement is None else 100 * point.agreement,
        n_held_out=point.n,
        minutes=round(tuned.minutes, 2),
    )
    tuning.recipes[budget] = Recipe(
        reduction, tuning.model, handle.name, asdict(handle.preprocessing()), handle.labels, {}, made, correction
    )
    tuning.points.append(point)
    if correction is not None:
        tuning.points.append(row.point("tuned, not calibrated", reduction))
    if reduction.input_size is not None:  # at another input size even vanilla disagrees with itself: how much is told
        fed = handle.bind(replace(Reduction.none(), input_size=reduction.input_size))
        tuning.points.append(row.point(f"vanilla, {reduction.input_size} pixels", fed))
    if tuned.stopped_by_clock:
        tuning.said.append(f"budget {budget:g}: the clock ended the search; a longer --minutes may do better")


def add_controls(
    tuning: Tuning,
    handle: Handle,
    at_budgets: Mapping[float, Tuned],
    images: Images,
    pair: tuple[Tensor, Tensor],
    more: Collection[str],
    **how: Any,
) -> None:
    """Judge vanilla and, at every budget, what a user could do without tuning.

    Args:
        tuning: Gets the points.
        handle: On the model.
        at_budgets: What came out, by budget.
        images: That judge; controls are calibrated on those that the tuned model was calibrated on.
        pair: Some images, and the same ones corrupted.
        more: Of `MORE_CONTROLS`.
        how: Seed and batch size of calibrations.
    """
    tuning.points.append(_Judged(handle, images, 1.0).point("vanilla", Reduction.none()))
    rules = _rules(tuning, handle, pair, more, max(at_budgets))
    for budget, tuned in at_budgets.items():
        row, controls = _Judged(handle, images, budget), dict(_controls(tuning, handle, budget, rules))
        compared = {"vanilla": Reduction.none(), "tuned": tuned.finding.reduction, **controls}
        space = Space(handle, budget)
        tuning.kept[budget] = {kind: space.counts(reduction) for kind, reduction in compared.items()}
        tuning.points += [row.point(kind, reduction) for kind, reduction in controls.items()]
        if "calibrated" in more and not tuned.fitted:
            tuning.said.append(f"budget {budget:g}: nothing was calibrated, so that the controls were not either")
        elif "calibrated" in more:
            for kind, reduction in controls.items():
                correction = _calibrated(handle.model, reduction, images, tuned, **how)
                tuning.points.append(row.point(f"{kind}, calibrated", reduction, correction))


def _rules(
    tuning: Tuning, handle: Handle, pair: tuple[Tensor, Tensor], more: Collection[str], budget: float
) -> dict[str, Candidate]:
    """Controls that are read from the model and the images, by one measurement for all budgets."""
    rules = {}
    try:
        rules["adaptive"] = adaptive_rule(tuning, handle, pair)
    except CatisError as error:
        tuning.said.append(f"adaptive schedule: {error}")
    if "diagnostic" in more:
        tuning.theta = tuning.theta or paper_theta(handle, pair, budget)
        rules["paper's Theta"] = Candidate("catis", tuning.theta["options"], SAME_SHARE)
    return rules


def _controls(
    tuning: Tuning, handle: Handle, budget: float, rules: Mapping[str, Candidate]
) -> Iterator[tuple[str, Reduction]]:
    """All controls at a budget; those that cannot reach it are told of and left out."""
    yield from controls_at(handle, budget).items()
    for kind, rule in rules.items():
        try:
            yield kind, Space(handle, budget).reduction(rule)
        except ValueError as error:  # the rule may ask for more than half of the tokens of a block
            tuning.said.append(f"budget {budget:g}, {kind}: {error}")


def _calibrated(
    model: nn.Module, reduction: Reduction, images: Images, tuned: Tuned, *, seed: int, batch_size: int
) -> Correction | None:
    """Calibrated weights of a control, fitted as those of the tuned model are; None where none help."""
    how: dict[str, Any] = {"held_out": images.split.choose, "rounds": tuned.rounds, "thorough": True}
    batches = views(images.split.fit[: tuned.fitted], images.preprocessing, batch_size, seed, **how)
    weights = calibrated_weights(model, reduction, batches).weights
    return Correction(weights, reduction) if weights else None


@dataclass(frozen=True)
class _Judged:
    """Makes points at one budget."""

    handle: Handle
    images: Images
    budget: float

    def point(self, kind: str, reduction: Reduction, correction: Correction | None = None) -> Point:
        judged = self.images.judge.judge(reduction, correction)
        share = macs_of(self.handle, reduction) / macs_of(self.handle, Reduction.none())
        interval = judged.agreement, judged.low, judged.high
        name, calibrated = str(reduction.method.name), correction is not None
        return Point(kind, self.budget, share, name, calibrated, judged.distance, *interval, judged.n)
