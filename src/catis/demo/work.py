"""What the demo will do, and how much work that is, so that its progress bar can tell how long it takes."""

from __future__ import annotations

import math
from itertools import pairwise

from catis.demo.settings import Settings, grid
from catis.zoo.models import DEPTHS

__all__ = ["amounts", "bisection_passes", "is_compared", "limit_views", "planned_work", "probe_amount", "probe_work"]


def amounts(depth: int, settings: Settings) -> list[int]:
    """Amounts r of the table at a depth."""
    return grid(settings.r_max(depth), settings.steps)


def limit_views(settings: Settings) -> list[str]:
    """Views on which r_crit is looked for."""
    return ["clean", "shifted"] if settings.shifted_limits else ["clean"]


def is_compared(name: str, settings: Settings) -> bool:
    """Whether a model is in the table."""
    return name in settings.compared


def probe_amount(depth: int, settings: Settings) -> int:
    """About three quarters of the largest r: where methods begin to differ."""
    return grid(settings.r_max(depth), 4)[-2]


def bisection_passes(depth: int, compared: bool, settings: Settings) -> int:
    """Most passes that bisection can need on top of those of the table."""
    r_max = settings.r_max(depth)
    if not compared:
        return 1 + math.ceil(math.log2(r_max))
    marks = [0, *amounts(depth, settings)]
    return math.ceil(math.log2(max(b - a for a, b in pairwise(marks))))


def probe_work(settings: Settings, depth: int) -> float:
    """One pass on clean and noisy images, one per method; the diagnostics themselves take about half again."""
    return 1.5 * (2 + len(settings.methods)) * settings.probed * depth


def planned_work(settings: Settings) -> float:
    """All the work that `run` will report, in images times blocks."""
    n = {"clean": settings.clean, "shifted": settings.shifted // 3 * 3}
    methods, work = len(settings.methods), 0.0
    for name in settings.models:
        depth, compared = DEPTHS[name], is_compared(name, settings)
        if compared:
            work += sum(n.values()) * depth * (1 + methods * len(amounts(depth, settings)))
            work += probe_work(settings, depth)
        for view in limit_views(settings):
            passes = methods * bisection_passes(depth, compared, settings) + (not compared)
            work += n[view] * depth * passes
    return work
