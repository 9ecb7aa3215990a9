"""What a user may want of a tuning: budgets, a largest loss, a speed-up; each becomes a call of `tune`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from torch import nn

from catis.calibration.views import ImagesLike, prepared_images
from catis.data.preprocessing import Preprocessing
from catis.tuning.bounds import budget_for_speedup, cheapest_within
from catis.tuning.objective import JUDGE
from catis.tuning.result import Tuning
from catis.tuning.tuning import tune


@dataclass(frozen=True)
class Goal:
    """What is wanted: one of budgets, drop and speedup.

    Attributes:
        budgets: Shares of the multiply-adds.
        drop: Share of the images whose class may change.
        speedup: Times as fast as vanilla.
        objective: "fidelity", or "diagnostic" for the paper's procedure.
    """

    budgets: tuple[float, ...] = ()
    drop: float | None = None
    speedup: float | None = None
    objective: Literal["fidelity", "diagnostic"] = "fidelity"


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
    """Tune a model for a goal, with the other arguments of `catis.tune`."""
    prepared = prepared_images(model, images, preprocessing, limit)
    how |= {"preprocessing": preprocessing, "report": report, "objective": goal.objective}

    def tune_at(budget: float, of: int) -> Tuning:
        return tune(model, prepared, budget=budget, minutes=minutes / of, output=output, **how)

    if goal.drop is not None:
        return cheapest_within(goal.drop, round(JUDGE * len(prepared)), tune_at)
    if goal.speedup is not None:
        return tune_at(budget_for_speedup(model, goal.speedup), 1)
    return tune(model, prepared, budget=goal.budgets, minutes=minutes, output=output, **how)
