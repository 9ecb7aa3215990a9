"""`catis.tune`: searches, calibrates and judges a model at one or several budgets, within a time, without labels."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, Literal

from torch import Tensor, nn

from catis import hosts
from catis.calibration.views import ImagesLike, both_views, prepared_images
from catis.core.budget import removed_from
from catis.core.reduction import Reduction
from catis.data.preprocessing import Preprocessing
from catis.hosts import Handle
from catis.hosts.correction import Correction
from catis.hosts.swap import base_class
from catis.hosts.weights import weights_hash
from catis.inference import evaluating
from catis.recipes import Made, Recipe
from catis.tuning.adaptive import adaptive_shape
from catis.tuning.allowance import Allowance
from catis.tuning.at_budget import Images, Tuned, macs_of, tune_at
from catis.tuning.candidates import LEVERS, Candidate, Space
from catis.tuning.controls import controls_at
from catis.tuning.diagnostic import choose_theta
from catis.tuning.journal import Journal
from catis.tuning.objective import Judgement, Split, fingerprint
from catis.tuning.ray_answers import answers
from catis.tuning.result import TRIED_NAME, Point, Tuning

THETA_IMAGES = 32
"""Images that rho_s is measured on."""
Report = Callable[[str, float], None]
"""Called with what is being done, and the best distance from vanilla so far."""


def tune(
    model: nn.Module,
    images: ImagesLike,
    *,
    budget: float | Sequence[float],
    minutes: float = 15.0,
    without: Collection[str] = (),
    limit: int | None = None,
    batch_size: int = 32,
    seed: int = 0,
    output: str | Path | None = None,
    preprocessing: Preprocessing | None = None,
    command: str = "catis.tune",
    objective: Literal["fidelity", "diagnostic"] = "fidelity",
    ray: str | None = None,
    report: Report | None = None,
) -> Tuning:
    """The best that a model can be at a budget: which tokens to keep where, by which method, with which weights.

    Minimises KL(vanilla || reduced) of the logits on unlabelled images, clean and corrupted. Some of the images are
    searched and calibrated on, some accept or reject what was found, and some are looked at only once, at the end. The
    model is left as it is; `catis.apply(model, recipe=tuning.recipe)` puts the result on.

    How much is tried is worked out from the minutes beforehand, so the same call with the same seed gives the same
    recipe, unless the machine is so slow that the clock ends it. Ctrl-C ends it too: the best so far is kept.

    Args:
        model: A supported model; what is on it is ignored and kept.
        images: Unlabelled images, as for `catis.calibrate`.
        budget: Multiply-adds, as a share of the vanilla model's; one or several.
        minutes: For all budgets together.
        without: What is not to be chosen: any of schedule, operator, theta, weights, gain, size, calibration.
        limit: Use this many images.
        batch_size: Images per batch.
        seed: Of everything random.
        output: Folder for recipes, `tune.json`, and a journal that lets a killed run go on.
        preprocessing: How to prepare a folder or arrays; by default as the model wants it.
        command: What was called, for the recipe.
        objective: "fidelity", or "diagnostic": the paper's procedure chooses Theta of CATIS, nothing else is.
        ray: Address of a Ray cluster on which candidates are compared, "local" to start one; None for here.
        report: Told of progress.

    Raises:
        ValueError: A budget that nobody can reach, or an unknown lever.
        CatisError: Too few images, or a model whose answers are not finite.

    Example:
        >>> import catis, torch
        >>> from catis import zoo
        >>> images = torch.randn(24, 3, 96, 96)
        >>> tuning = catis.tune(zoo.load("tiny-6"), images, budget=0.5, minutes=0.05, without=["calibration"])
        >>> tuning.points[0].macs_share <= 0.5
        True
    """
    budgets, levers = _budgets(budget, minutes), _levers(without)
    handle = hosts.find(model)
    _ = handle.facts  # refuses an unsupported model before any image is read
    wanted, started = preprocessing or handle.preprocessing(), time.monotonic()
    prepared = prepared_images(model, images, wanted, limit)
    split = Split.of(prepared, seed)
    counts = {"fit": len(split.fit), "choose": len(split.choose), "judge": len(split.judge)}
    tuning = Tuning(base_class(handle.model).__name__, command, counts)
    seen_images = fingerprint(prepared)
    run = {"images": seen_images, "weights": weights_hash(handle.vanilla_weights), "seed": seed}
    journal = Journal(None if output is None else _journal_file(Path(output)), run)
    how: dict[str, Any] = {"levers": levers, "seed": seed, "batch_size": batch_size, "tell": report}
    with evaluating(model), handle.installed(Reduction.none()):
        seen = Images.of(model, split, wanted, batch_size, seed)
        if objective == "diagnostic":
            tuning.theta = _theta(model, split, wanted, budgets[0], seed)
        with answers(ray, {"search": seen.search, "choose": seen.choose}) as answer:
            for share in budgets:
                how["fixed"] = Candidate("catis", tuning.theta["options"]) if tuning.theta else None
                tuned = tune_at(model, share, seen, journal, Allowance(minutes / len(budgets)), answer=answer, **how)
                made = Made(command, budget=share, images=seen_images, n_images=len(prepared), seed=seed)
                _add(tuning, handle, share, tuned, seen, made, alone=len(budgets) == 1)
                if tuned.interrupted:
                    tuning.complete = False
                    break
        _add_controls(tuning, handle, list(tuning.recipes), seen, _pair(split, wanted, seed))
    tuning.tried, tuning.minutes = journal.tried, (time.monotonic() - started) / 60
    if output is not None:
        tuning.save(Path(output))
    return tuning


def _budgets(budget: float | Sequence[float], minutes: float) -> list[float]:
    """The budgets, largest first."""
    given = [float(share) for share in (budget if isinstance(budget, Sequence) else [budget])]
    for share in given:
        if not 0 < share < 1:
            raise ValueError(
                f"budget={share:g}: expected a share of the vanilla model's multiply-adds, between 0 and 1"
            )
    if not given or not minutes > 0:
        raise ValueError(f"budget={given}, minutes={minutes:g}: expected at least one budget, and some time")
    return sorted(set(given), reverse=True)


def _theta(model: nn.Module, split: Split, preprocessing: Preprocessing, budget: float, seed: int) -> dict[str, Any]:
    """What the paper's procedure chooses for CATIS, at the same share per block."""
    space = Space(hosts.find(model), budget)
    removed = removed_from(space.patches(None), space.kept(Candidate()))
    choice = choose_theta(model, *_pair(split, preprocessing, seed), removed)
    told = {"rho_s": choice.rho_s, "default_rho_s": choice.default_rho_s, "allowed": choice.allowed, "n": choice.n}
    return {"options": choice.options, **told}


def _levers(without: Collection[str]) -> list[str]:
    unknown = sorted(set(without) - set(LEVERS))
    if unknown:
        raise ValueError(f"without={', '.join(unknown)}: expected any of {', '.join(LEVERS)}")
    return [lever for lever in LEVERS if lever not in without]


def _journal_file(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    return folder / TRIED_NAME


def _add(tuning: Tuning, handle: Handle, budget: float, tuned: Tuned, images: Images, made: Made, alone: bool) -> None:
    """Judge what came out at a budget, and add its recipe and its point."""
    reduction, correction = tuned.finding.reduction, tuned.correction
    judged = images.judge.judge(reduction, correction)
    made = replace(
        made,
        objective_before=tuned.before,
        objective_after=tuned.after,
        held_out_kl=judged.distance,
        held_out_agreement=None if judged.agreement is None else 100 * judged.agreement,
        n_held_out=judged.n,
        minutes=round(tuned.minutes, 2),
    )
    tuning.recipes[budget] = Recipe(
        reduction, tuning.model, handle.name, asdict(handle.preprocessing()), handle.labels, {}, made, correction
    )
    where = "." if alone else f"{budget:g}"
    tuning.points.append(_point("tuned", budget, tuned.share, str(reduction.method.name), judged, correction, where))
    if tuned.stopped_by_clock:
        tuning.said.append(f"budget {budget:g}: the clock ended the search; a longer --minutes may do better")


def _add_controls(
    tuning: Tuning, handle: Handle, budgets: Sequence[float], images: Images, pair: tuple[Tensor, Tensor]
) -> None:
    """Judge vanilla and, at every budget, what a user could do without tuning."""
    tuning.points.append(_point("vanilla", 1.0, 1.0, "vanilla", images.judge.judge(Reduction.none())))
    vanilla = macs_of(handle, Reduction.none())
    shape = adaptive_shape(handle.model, *pair)
    rule, tuning.rho_s = Candidate("tome", shape=shape.weights), {"pairwise": shape.pairwise, "fused": shape.fused}
    for budget in budgets:
        space, controls = Space(handle, budget), controls_at(handle, budget)
        try:
            controls["adaptive"] = space.reduction(rule)
        except ValueError as error:  # the rule may ask for more than half of the tokens of a block
            tuning.said.append(f"budget {budget:g}, adaptive schedule: {error}")
        compared = {"vanilla": Reduction.none(), "tuned": tuning.recipes[budget].reduction, **controls}
        tuning.kept[budget] = {kind: space.counts(reduction) for kind, reduction in compared.items()}
        for kind, reduction in controls.items():
            share = macs_of(handle, reduction) / vanilla
            tuning.points.append(_point(kind, budget, share, reduction.method.name, images.judge.judge(reduction)))


def _pair(split: Split, preprocessing: Preprocessing, seed: int) -> tuple[Tensor, Tensor]:
    """Some images, and the same ones corrupted."""
    some = split.fit[: 2 * THETA_IMAGES]
    return some[::2], both_views(some, preprocessing, seed)[1][1].flip(-1)


def _point(
    kind: str,
    budget: float,
    share: float,
    method: str,
    judged: Judgement,
    correction: Correction | None = None,
    recipe: str = "",
) -> Point:
    interval = judged.agreement, judged.low, judged.high
    return Point(kind, budget, share, method, correction is not None, judged.distance, *interval, judged.n, recipe)
