"""What a user could do at the same cost without tuning: the controls of every table of accuracy."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from catis.core.budget import removed_from
from catis.core.method import Method
from catis.core.reduction import Reduction
from catis.core.schedule import Schedule
from catis.hosts import Handle
from catis.macs import count_macs
from catis.registry import create_method
from catis.tuning.candidates import SAME_SHARE, Candidate, Space
from catis.tuning.random_removal import RandomRemoval


def controls_at(handle: Handle, budget: float) -> dict[str, Reduction]:
    """Controls at a budget by name; those that the model or the budget does not allow are left out.

    Args:
        handle: On the model.
        budget: Multiply-adds, as a share of the vanilla model's. Every control leaves out the patch tokens of the last
            block where the head does not read them, as tuned models do.
    """
    makers: dict[str, Callable[[], Reduction | None]] = {
        "smaller image": lambda: smaller_image(handle, budget),
        "constant r": lambda: constant_r(handle, budget, create_method("tome")),
        "same share": lambda: same_share(handle, budget, create_method("tome")),
        "random removal": lambda: same_share(handle, budget, RandomRemoval()),
    }
    made: dict[str, Reduction] = {}
    for name, make in makers.items():
        reduction = make()
        if reduction is not None:
            made[name] = reduction
    return made


def smaller_image(handle: Handle, budget: float) -> Reduction | None:
    """Nothing but the largest image that the budget allows, a whole number of patches a side; None if none does."""
    if handle.fixed_size():
        return None
    side, patches = handle.example_shape(1)[-1], handle.cost().num_patches
    patch = side // max(1, round(patches**0.5))
    vanilla = replace(Reduction.none(), head_only=not handle.reads_patches())
    for size in range(side, 0, -patch):
        smaller = replace(vanilla, input_size=size)
        if _share(handle, smaller) <= budget:
            return handle.bind(smaller)
    return None


def constant_r(handle: Handle, budget: float, method: Method) -> Reduction | None:
    """The same number of tokens in every block, the smallest that meets the budget; None if none does."""
    space = Space(handle, budget)
    r = space.constant_r()
    return None if r is None else handle.bind(Reduction(method, Schedule(r), head_only=space.head_only))


def same_share(handle: Handle, budget: float, method: Method) -> Reduction | None:
    """The same share of the tokens in every block; None where that cannot meet the budget."""
    space = Space(handle, budget)
    try:
        removed = removed_from(space.patches(None), space.kept(Candidate(shape=SAME_SHARE)))
    except ValueError:  # more than half would have to go in some block
        return None
    return handle.bind(Reduction(method, Schedule.parse(removed), head_only=space.head_only))


def _share(handle: Handle, reduction: Reduction) -> float:
    vanilla = count_macs(handle.cost(), handle.facts, None)
    return count_macs(handle.cost_under(reduction), handle.facts, reduction) / vanilla
