"""`catis.tune`: searches, calibrates and judges a model at one or several budgets, within a time, without labels."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

from torch import Tensor, nn

from catis import hosts
from catis.calibration.answers import check_answers
from catis.calibration.views import ImagesLike, both_views, prepared_images
from catis.core.reduction import Reduction
from catis.data.preprocessing import Preprocessing
from catis.hosts import Handle
from catis.hosts.swap import base_class
from catis.hosts.weights import weights_hash
from catis.inference import evaluating
from catis.recipes import Made
from catis.tuning.allowance import Allowance
from catis.tuning.at_budget import Images, Tuned, tune_at
from catis.tuning.candidates import LEVERS, OPERATORS, SAME_SHARE, Candidate
from catis.tuning.journal import Journal
from catis.tuning.judging import MORE_CONTROLS, adaptive_rule, add_controls, add_tuned, paper_theta
from catis.tuning.objective import Split, fingerprint
from catis.tuning.ray_answers import answers
from catis.tuning.result import TRIED_NAME, Tuning

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
    methods: Sequence[str] = OPERATORS,
    limit: int | None = None,
    batch_size: int = 32,
    seed: int = 0,
    output: str | Path | None = None,
    preprocessing: Preprocessing | None = None,
    command: str = "catis.tune",
    objective: Literal["fidelity", "diagnostic"] = "fidelity",
    schedule: Literal["search", "adaptive"] = "search",
    controls: Collection[str] = (),
    ray: str | None = None,
    report: Report | None = None,
    write: bool = True,
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
        methods: Names of the methods that may be chosen; what a budget alone does comes first.
        limit: Use this many images.
        batch_size: Images per batch.
        seed: Of everything random.
        output: Folder for recipes, `tune.json`, and a journal that lets a killed run go on.
        preprocessing: How to prepare a folder or arrays; by default as the model wants it.
        command: What was called, for the recipe.
        objective: "fidelity", or "diagnostic": the paper's procedure chooses Theta of CATIS, nothing else is.
        schedule: "search", or "adaptive": the rule "spend where rho_s is high" decides it and nothing is searched.
        controls: Rows that cost further time: "calibrated" (every control calibrated on the same images too) and
            "diagnostic" (CATIS with the Theta of the paper's procedure, beside what the search found).
        ray: Address of a Ray cluster on which candidates are compared, "local" to start one; None for here.
        report: Told of progress.
        write: Whether recipes and `tune.json` are written to `output`; the journal is in any case.

    Raises:
        ValueError: A budget that nobody can reach, or an unknown lever or control.
        CatisError: Too few images, or a model whose answers are not finite.

    Example:
        >>> import catis, torch
        >>> from catis import zoo
        >>> images = torch.randn(24, 3, 96, 96)
        >>> tuning = catis.tune(zoo.load("tiny-6"), images, budget=0.5, minutes=0.05, without=["calibration"])
        >>> tuning.points[0].macs_share <= 0.5
        True
    """
    budgets, levers, more = _budgets(budget, minutes), _levers(without), _known(controls, MORE_CONTROLS, "controls")
    _known((objective,), ("fidelity", "diagnostic"), "objective")
    names = [name for name in OPERATORS if name in _known(methods, OPERATORS, "methods")] or list(OPERATORS)
    _known((schedule,), ("search", "adaptive"), "schedule")
    handle = hosts.find(model)
    _check(handle, budgets)  # before any image is read
    wanted, started = preprocessing or handle.preprocessing(), time.monotonic()
    said: list[str] = []
    prepared = prepared_images(model, images, wanted, limit, said)
    split, seen_images = Split.of(prepared, seed), fingerprint(prepared)
    counts = {"fit": len(split.fit), "choose": len(split.choose), "judge": len(split.judge)}
    tuning, at_budgets = Tuning(base_class(handle.model).__name__, command, counts, said=said), dict[float, Tuned]()
    own = weights_hash(handle.vanilla_weights)
    run = {"images": seen_images, "weights": own, "seed": seed, "batch_size": batch_size}
    journal = Journal(None if output is None else Path(output) / TRIED_NAME, run)
    made = Made(command, images=seen_images, n_images=len(prepared), seed=seed)
    how: dict[str, Any] = {"levers": levers, "methods": names, "seed": seed, "batch_size": batch_size, "tell": report}
    with evaluating(model), handle.installed(Reduction.none()), _keeping_the_best(tuning):
        seen, pair = Images.of(model, split, wanted, batch_size, seed, levers), _pair(split, wanted, seed)
        how["fixed"] = _fixed(tuning, handle, pair, budgets[0], objective, schedule)
        with answers(ray, {"search": seen.search, "choose": seen.choose}) as answer:
            for place, share in enumerate(budgets):
                each = minutes / len(budgets)
                allowance = Allowance(each, max(0.0, time.monotonic() - started - 60 * each * place))
                at_budgets[share] = tune_at(model, share, seen, journal, allowance, answer=answer, **how)
                alone = len(budgets) == 1
                add_tuned(tuning, handle, share, at_budgets[share], seen, replace(made, budget=share), alone)
                if at_budgets[share].interrupted:
                    tuning.complete = False
                    break
        more = more if tuning.complete else ()  # who interrupted does not want to wait for these
        add_controls(tuning, handle, at_budgets, seen, pair, more, seed=seed, batch_size=batch_size)
    tuning.tried, tuning.minutes = journal.tried, (time.monotonic() - started) / 60
    if output is not None and write:
        tuning.save(Path(output))
    return tuning


@contextmanager
def _keeping_the_best(tuning: Tuning) -> Iterator[None]:
    """Ctrl-C ends what is inside, unless nothing was found yet."""
    try:
        yield
    except KeyboardInterrupt:
        if not tuning.recipes:
            raise
        tuning.complete = False


def _check(handle: Handle, budgets: Sequence[float]) -> None:
    """Refuse an unsupported model, and a budget that nobody can reach, whatever else was asked for."""
    check_answers(handle)
    for share in budgets:
        handle.bind(Reduction.of("tome", budget=share))


def _fixed(
    tuning: Tuning, handle: Handle, pair: tuple[Tensor, Tensor], budget: float, objective: str, schedule: str
) -> Candidate | None:
    """What is taken without a search: the paper's Theta, the paper's schedule, or both; None where all is searched."""
    rule = adaptive_rule(tuning, handle, pair) if schedule == "adaptive" else None
    if objective != "diagnostic":
        return rule
    tuning.theta = paper_theta(handle, pair, budget)
    return replace(rule or Candidate(shape=SAME_SHARE), method="catis", options=tuning.theta["options"])


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


def _levers(without: Collection[str]) -> list[str]:
    left = _known(without, LEVERS, "without")
    return [lever for lever in LEVERS if lever not in left]


def _known(given: Collection[str], known: Collection[str], name: str) -> Collection[str]:
    unknown = sorted(set(given) - set(known))
    if unknown:
        raise ValueError(f"{name}={', '.join(unknown)}: expected any of {', '.join(known)}")
    return given


def _pair(split: Split, preprocessing: Preprocessing, seed: int) -> tuple[Tensor, Tensor]:
    """Some images, and the same ones corrupted."""
    some = split.fit[: 2 * THETA_IMAGES]
    return some[::2], both_views(some, preprocessing, seed)[1][1].flip(-1)
