"""What the calibrations of a tuning cost, and so how many images they get, or whether there is a quick one at all."""

from __future__ import annotations

from typing import NamedTuple

from catis.calibration.targets import FITTED_ROWS
from catis.calibration.views import FEWEST
from catis.hosts import Handle
from catis.tuning.allowance import Allowance
from catis.tuning.objective import Split

PASSES, DECIDING_PASSES = (1.0, 9.0), (2.0, 36.0)
"""Vanilla passes that an image costs in a calibration, and those of the reduced model on top, fitted or deciding: it is
seen clean and corrupted, and one that decides flipped as well."""
FITTED = 0.4
"""Most of the allowance that the calibration may take."""
ROUNDS = 4
"""How often an image is fitted at the most, each time as another part of it."""
TRIED = 64
"""Images that a quick calibration is fitted on."""
ROWS_PER_INPUT = 2
"""Tokens for each input of the widest layer that a quick calibration must be fitted on, or there is none. On a ViT-B,
which has fewer, it took long and preferred an input size that was worse once all images were fitted."""


class Cost(NamedTuple):
    """What calibrations of a model cost at a budget, from its vanilla giga multiply-adds."""

    vanilla: float
    budget: float

    def gmacs(self, fitted: float, deciding: float) -> float:
        """Giga multiply-adds of a calibration that fits so many images, and decides on so many others."""
        fit, decide = (whole + reduced * self.budget for whole, reduced in (PASSES, DECIDING_PASSES))
        return self.vanilla * (fit * fitted + decide * deciding)


def affordable(split: Split, cost: Cost, allowance: Allowance) -> tuple[int, int]:
    """Images that can be calibrated on within the allowance (none if too few to help), and how often each is seen."""
    most = int((FITTED * allowance.total - cost.gmacs(0, len(split.choose))) / cost.gmacs(1, 0))
    images = min(len(split.fit), most)
    return (images, min(most // images, ROUNDS)) if images >= FEWEST else (0, 1)


def enough_rows(handle: Handle, fitted: int) -> bool:
    """Whether so many images determine the widest layer; a trial of one that they do not says little of the whole."""
    widest = max(linear.in_features for block in handle.linears() for linear in (*block.attention, *block.mlp))
    return fitted * FITTED_ROWS >= ROWS_PER_INPUT * widest
