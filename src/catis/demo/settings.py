"""How much the demo measures, in three sizes."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise

from catis.zoo.models import DEPTHS

OURS = "catis"
SHIFTS = ("hard", "renditions", "sketch")
"""The shifted view, in equal parts: what the paper averages as A, R and Sketch."""


@dataclass(frozen=True)
class Settings:
    """What to measure, on how many images."""

    title: str = "default"  # name of this size
    clean: int = 96  # clean test images
    shifted: int = 72  # images that are hard, renditions or sketches; a third each
    probed: int = 32  # images for rho_s and rho_off
    compared: tuple[str, ...] = ("tiny-12", "tiny-24")  # models of the table
    models: tuple[str, ...] = ("tiny-6", "tiny-12", "tiny-18", "tiny-24")  # models of the fit against 1/L
    methods: tuple[str, ...] = ("tome", "tofu", "pitome", "mctf", "catis")  # methods, in the order of the tables
    steps: int = 4  # amounts r in the table
    reach: int = 216  # largest r times depth, the same at every depth; there are 144 patch tokens
    batch: int = 24  # images per forward pass, also of the timings
    shifted_limits: bool = False  # whether to measure r_crit on the shifted view too
    seed: int = 0  # other seeds are other images

    def r_max(self, model: str) -> int:
        """Largest r that is tried: the same share of all tokens at every depth."""
        return max(self.reach // DEPTHS[model], 2)

    def amounts(self, model: str) -> list[int]:
        """Amounts r of the table; none for a model that is not in it."""
        return grid(self.r_max(model), self.steps) if model in self.compared else []

    @property
    def leading(self) -> str:
        """The model that the report begins with."""
        return "tiny-12" if "tiny-12" in self.compared else self.compared[0]

    def probe_amount(self, model: str) -> int:
        """About three quarters of the largest r: where methods begin to differ."""
        return grid(self.r_max(model), 4)[-2]

    @property
    def limit_views(self) -> list[str]:
        """Views on which r_crit is looked for."""
        return ["clean", "shifted"] if self.shifted_limits else ["clean"]

    def bisection_passes(self, model: str) -> int:
        """About how many passes bisection needs on top of those of the table."""
        return math.ceil(math.log2(self.r_max(model) / max(len(self.amounts(model)), 1))) + 1


DEFAULT = Settings()
QUICK = Settings("quick", clean=20, shifted=12, probed=8, compared=("tiny-6", "tiny-12"), steps=2, batch=20)
FULL = Settings("full", clean=480, shifted=480, probed=240, steps=8, shifted_limits=True)


def grid(r_max: int, steps: int) -> list[int]:
    """Amounts that bisection from `r_max` would try, so that table and bisection share their passes.

    Example:
        >>> grid(18, 4)
        [4, 9, 13, 18]
    """
    marks = [0, r_max]
    while len(marks) <= steps:
        middles = [(a + b) // 2 for a, b in pairwise(marks)]
        finer = sorted({*marks, *middles})
        if finer == marks:
            break
        marks = finer
    return marks[1:]
