"""What a user may want of a tuning: budgets, a largest loss, a speed-up; each becomes a call of `tune`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor, nn

from catis import hosts
from catis.calibration.answers import answer_of, check_answers
from catis.calibration.views import ImagesLike, prepared_images
from catis.data.preprocessing import Preprocessing
from catis.errors import CatisError
from catis.inference import evaluating
from catis.tuning.bounds import budget_for_speedup, cheapest_within, measured_speedup, reachable
from catis.tuning.objective import JUDGE
from catis.tuning.result import Tuning
from catis.tuning.tuning import tune


@dataclass(frozen=True)
class Goal:
    """What is wanted: one of budgets, drop and speedup."""

    budgets: tuple[float, ...] = ()  # shares of the multiply-adds
    drop: float | None = None  # share of the images whose class may change
    speedup: float | None = None  # times as fast as vanilla
    objective: Literal["fidelity", "diagnostic"] = "fidelity"  # "fidelity", or "diagnostic" for the paper's procedure


def tune_for(
    goal: Goal,
    model: nn.Module,
    images: ImagesLike,
    *,
    preprocessing: Preprocessing,
    minutes: float,
    limit: int | None,
    output: Path,
    report: Callable[[str, float], None] | None = None,
    **how: Any,
) -> Tuning:
    """Tune a model for a goal, with the other arguments of `catis.tune`; one result is written, or none.

    Raises:
        CatisError: No recipe is what is wanted.
    """
    said: list[str] = []
    prepared = prepared_images(model, images, preprocessing, limit, said)
    how |= {"preprocessing": preprocessing, "report": report, "objective": goal.objective, "output": output}

    def tune_at(budget: float, of: int) -> Tuning:
        return tune(model, prepared, budget=budget, minutes=minutes / of, write=False, **how)

    if goal.drop is not None:
        _check_classes(model, prepared[:1])
        # another input size answers as well, but not alike: agreement is with vanilla at its own
        how["without"] = {*how.get("without", ()), "size"}
        tuning = cheapest_within(goal.drop, round(JUDGE * len(prepared)), tune_at, reachable(hosts.find(model)))
    elif goal.speedup is not None:
        tuning = tune_at(budget_for_speedup(model, goal.speedup), 1)
        times = measured_speedup(model, tuning.recipe.reduction)
        tuning.said.append(f"{times:.2f} times as fast as vanilla, measured here at batch 8; asked: {goal.speedup:g}")
    else:
        tuning = tune(model, prepared, budget=goal.budgets, minutes=minutes, write=False, **how)
    tuning.said[:0] = said
    tuning.save(output)
    return tuning


def _check_classes(model: nn.Module, image: Tensor) -> None:
    """Refuse a model without classes, before anything is searched."""
    handle, weight = hosts.find(model), next(model.parameters())
    check_answers(handle)
    with evaluating(model), torch.inference_mode():
        if not answer_of(handle, model(image.to(weight.device, weight.dtype)))[1]:
            raise CatisError("the model has no classifier, so that no agreement can be measured: give --budget instead")
