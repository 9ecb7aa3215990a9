"""Budgets from other wishes: the cheapest that loses at most so much, or the largest that is so many times as fast."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace

import torch
from torch import nn

from catis import hosts
from catis.bench.timing import paired_ratio, time_rounds
from catis.core.reduction import Reduction
from catis.diagnostics.estimates import wilson
from catis.errors import CatisError
from catis.hosts import Handle
from catis.inference import evaluating
from catis.tuning.result import Point, Tuning

BUDGETS = (0.3, 0.36, 0.42, 0.5, 0.58, 0.65, 0.72, 0.8, 0.9)
"""Budgets among which the cheapest is looked for."""


def images_needed(drop: float) -> int:
    """Images that must judge before full agreement can show, with 95 % confidence, that at most `drop` is lost.

    Example:
        >>> images_needed(0.05), images_needed(0.01)
        (73, 381)
    """
    n = 1
    while wilson(n, n)[0] < 100 * (1 - drop):
        n += 1
    return n


def cheapest_within(
    drop: float, judging: int, tune_at: Callable[[float, int], Tuning], budgets: Sequence[float] = BUDGETS
) -> Tuning:
    """The tuning of the cheapest budget whose agreement with vanilla is surely at least 1 - drop.

    Args:
        drop: Share of the images whose class may change.
        judging: Images that judge.
        tune_at: Tunes at a budget; told how many budgets will be tried in all.
        budgets: Among which it is looked for, lowest first.

    Raises:
        ValueError: Not a share between 0 and 1.
        CatisError: No budget allows it, or so few images cannot show it.
    """
    if not 0 < drop < 1:
        raise ValueError(f"a loss of {100 * drop:g} points: expected more than 0 and less than 100")
    needed = images_needed(drop)
    if judging < needed:
        raise CatisError(
            f"a loss of at most {100 * drop:g} points cannot be shown with the {judging} images that judge: it takes "
            f"{needed}, even if all of them keep their class; give more images, or allow more loss"
        )
    low, high, allowed, tried = 0, len(budgets), None, list[Tuning]()
    while low < high and all(tuning.complete for tuning in tried):  # agreement rises with the budget
        middle = (low + high) // 2
        try:
            tuning = tune_at(budgets[middle], (len(budgets) - 1).bit_length())
        except KeyboardInterrupt:  # before anything was found at this budget
            if allowed is None:
                raise
            allowed.complete = False
            return allowed
        tried.append(tuning)
        low, high, allowed = (low, middle, tuning) if _allows(tuning, drop) else (middle + 1, high, allowed)
    if allowed is None:
        said = "; ".join(_said(tuning.points[0]) for tuning in tried)
        upto = f"up to {budgets[-1]:g} " if tried[-1].complete else "that was tried before it was interrupted "
        raise CatisError(f"no budget {upto}surely loses at most {100 * drop:g} points: {said}")
    allowed.complete = all(tuning.complete for tuning in tried)
    others = [tuning.points[0] for tuning in tried if tuning is not allowed]
    allowed.points += [replace(point, recipe="") for point in others]  # looked at, and not written
    return allowed


def _allows(tuning: Tuning, drop: float) -> bool:
    low = tuning.points[0].agreement_low
    assert low is not None
    return low >= 1 - drop


def _said(point: Point) -> str:
    assert point.agreement is not None
    assert point.agreement_low is not None
    return f"{point.budget:g} keeps {100 * point.agreement:.1f} %, surely {100 * point.agreement_low:.1f} %"


def budget_for_speedup(model: nn.Module, speedup: float, *, batch: int = 8, rounds: int = 7) -> float:
    """The largest budget at which a model is so many times as fast as vanilla, measured here in turns.

    Raises:
        ValueError: Not a speed-up.
        CatisError: No budget that can be reached is that fast here.
    """
    if not speedup > 1:
        raise ValueError(f"speedup={speedup:g}: expected more than 1")
    low, high = min(reachable(hosts.find(model), (0.8 * BUDGETS[0], *BUDGETS)), default=1.0), 1.0
    if measured_speedup(model, Reduction.of("catis", budget=low), batch=batch, rounds=rounds) < speedup:
        raise CatisError(f"{speedup:g} times as fast cannot be reached here by removing tokens: lower it")
    for _ in range(5):
        middle = (low + high) / 2
        fast = measured_speedup(model, Reduction.of("catis", budget=middle), batch=batch, rounds=rounds) >= speedup
        low, high = (middle, high) if fast else (low, middle)
    return round(low, 3)


def reachable(handle: Handle, budgets: Sequence[float] = BUDGETS) -> list[float]:
    """Those of some budgets that a model can reach."""
    within = []
    for budget in budgets:
        with suppress(ValueError):
            handle.bind(Reduction.of("catis", budget=budget))
            within.append(budget)
    return within


def measured_speedup(model: nn.Module, reduction: Reduction, *, batch: int = 8, rounds: int = 7) -> float:
    """How many times as fast as vanilla a model is under a reduction, here, measured in turns."""
    handle, weight = hosts.find(model), next(model.parameters())
    images = torch.zeros(handle.example_shape(batch), dtype=weight.dtype, device=weight.device)
    bound = handle.bind(reduction)

    def vanilla() -> object:
        with torch.inference_mode():
            return model(images)

    def reduced() -> object:
        with handle.installed(bound):
            return vanilla()

    with evaluating(model), handle.installed(Reduction.none()):
        timed = time_rounds({"vanilla": vanilla, "reduced": reduced}, rounds)
    return paired_ratio(timed.seconds["vanilla"], timed.seconds["reduced"]).median
