"""Which input sizes a tuning compares."""

from __future__ import annotations

from collections.abc import Collection

from catis.core.reduction import Reduction
from catis.hosts import Handle
from catis.tuning.costs import TRIED, enough_rows
from catis.tuning.objective import Objective

STEPS = 3
"""Input sizes that are tried: the model's own, and fewer patches a side."""
LITTLE = 0.25
"""How little removing tokens may move vanilla's answers, beside what another input size does, for the size to be kept.
On DeiT-Ti and ViT-Ti it is about a half at half of the multiply-adds and a sixth at 0.65."""


def input_sizes(handle: Handle) -> list[int | None]:
    """The model's own input size (None), and where it can be fed smaller ones, some patches a side fewer.

    The smallest comes first: if the clock ends the comparison, the ends are known.
    """
    shape = handle.example_shape(1)
    side, patches = shape[-1], handle.cost().num_patches
    if handle.fixed_size() or len(shape) != 4 or shape[-2] != side or round(patches**0.5) ** 2 != patches:
        return [None]
    patch = side // round(patches**0.5)
    return [None, *(side - patch * step for step in range(STEPS - 1, 0, -1) if side - patch * step >= side // 2)]


def sizes_to_try(handle: Handle, levers: Collection[str]) -> list[int | None]:
    """Input sizes that may be chosen, the model's own (None) first.

    What will be calibrated is compared calibrated, or keeps its size: a ViT-B that was nearer to vanilla at 208 pixels
    as it was, was worse there once calibrated.
    """
    compared_as_used = "calibration" not in levers or enough_rows(handle, TRIED)
    return input_sizes(handle) if "size" in levers and compared_as_used else [None]


def sizes_left(search: Objective, choose: Objective, own: Reduction) -> dict[int | None, float]:
    """Input sizes that are compared, with their handicaps: none but the model's own where that gives its answers.

    Who keeps most of the multiply-adds wants the answers of the model as it is, and another size moves these more.

    Args:
        search: On the images that are searched on, over the sizes that may be chosen; gives the handicaps.
        choose: On the images that choose, over the same sizes; says how far each moves answers.
        own: A reduction at the budget and at the model's own size.
    """
    handicaps, moved = search.handicaps, choose.moved
    apart = choose.from_own_size(own) if len(handicaps) > 1 else 0.0
    return {size: handicap for size, handicap in handicaps.items() if size is None or apart >= LITTLE * moved[size]}
