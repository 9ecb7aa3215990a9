"""How much the demo measures: three sizes, and what a seed may be."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise

__all__ = ["DEFAULT", "FULL", "QUICK", "Settings", "grid", "parse_seed"]

LARGEST_SEED = 2**32 - 1
SHIFTS = ("hard", "renditions", "sketch")
"""The shifted view, in equal parts: what the paper averages as A, R and Sketch."""


@dataclass(frozen=True)
class Settings:
    """What to measure, on how many images.

    Attributes:
        title: Name of this size.
        clean: Clean test images.
        shifted: Images that are hard, renditions or sketches; a third each.
        probed: Images for rho_s and rho_off.
        compared: Models of the table.
        models: Models of the fit against 1/L.
        methods: Methods, in the order of the tables.
        steps: Amounts r in the table.
        reach: Largest r times depth, the same at every depth; there are 144 patch tokens.
        batch: Images per forward pass, also of the timings.
        shifted_limits: Whether to measure r_crit on the shifted view too.
        seed: Other seeds are other images.
    """

    title: str = "default"
    clean: int = 96
    shifted: int = 72
    probed: int = 32
    compared: tuple[str, ...] = ("tiny-12", "tiny-24")
    models: tuple[str, ...] = ("tiny-6", "tiny-12", "tiny-18", "tiny-24")
    methods: tuple[str, ...] = ("tome", "tofu", "pitome", "mctf", "catis")
    steps: int = 4
    reach: int = 216
    batch: int = 24
    shifted_limits: bool = False
    seed: int = 0

    def r_max(self, depth: int) -> int:
        """Largest r that is tried at a depth: the same share of all tokens at every depth."""
        return max(self.reach // depth, 2)

    def seeded(self, seed: int) -> Settings:
        """The same on other images."""
        return replace(self, seed=seed)


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


def parse_seed(text: str) -> int:
    """A seed from the command line.

    Example:
        >>> parse_seed("7")
        7
    """
    if not (text.isascii() and text.isdigit() and int(text) <= LARGEST_SEED):
        raise ValueError(f"--seed {text}: expected a whole number from 0 to {LARGEST_SEED}")
    return int(text)
