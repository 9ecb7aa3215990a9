"""At one cost: constant r, a budget, a tuned recipe and, as the control, a smaller image."""

from __future__ import annotations

from torch import nn

from catis import hosts
from catis.core.reduction import Reduction
from catis.demo.settings import OURS
from catis.recipes import list_recipes, load_recipe
from catis.registry import create_method
from catis.tuning.controls import constant_r, smaller_image

CONSTANT, SMALLER, USUAL = "constant r", "smaller image", 0.5


def rivals_at_cost(model: nn.Module, name: str) -> dict[str, Reduction]:
    """What one can do with so many multiply-adds, by name: those of the tuned recipe, or else half of vanilla's."""
    handle = hosts.find(model)
    recipe = next((known for known in list_recipes() if known.split("@")[0] == name), None)
    budget = USUAL if recipe is None else float(recipe.split("@")[1])
    rivals = {
        CONSTANT: constant_r(handle, budget, create_method(OURS)),
        f"budget={budget:g}": handle.bind(Reduction.of(OURS, budget=budget)),
        f"recipe {recipe}": None if recipe is None else handle.bind(load_recipe(recipe).reduction),
        SMALLER: smaller_image(handle, budget),
    }
    return {title: reduction for title, reduction in rivals.items() if reduction is not None}
