"""Recipes: what is put on a model, as files: a reduction, calibrated weights if there are any, how it came about."""

from catis.recipes.files import (
    FILE_NAME,
    RecipeLike,
    list_recipes,
    load_recipe,
    recipe_of,
    save_recipe,
    write_recipe,
)
from catis.recipes.made import Made
from catis.recipes.recipe import Recipe

__all__ = [
    "FILE_NAME", "Made", "Recipe", "RecipeLike", "list_recipes", "load_recipe", "recipe_of", "save_recipe",
    "write_recipe",
]  # fmt: skip
