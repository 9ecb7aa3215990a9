"""`catis recipes`: the recipes that come with catis, or one of them as it is written."""

from __future__ import annotations

import json
from typing import Annotated

import typer
from rich.console import Console

from catis.report.table import Table


def recipes_command(
    name: Annotated[str, typer.Argument(metavar="[NAME]", help="A recipe to print: a name, a folder or a file.")] = "",
) -> None:
    """List the recipes that come with catis, with what was measured on images that chose nothing; or print one.

    Example: catis recipes
    """
    from catis.recipes import list_recipes, load_recipe

    console = Console(highlight=False)
    if name:
        recipe = load_recipe(name)
        calibrated = recipe.correction and {"calibrated": sorted(recipe.correction.values)}
        console.print(json.dumps({**recipe.to_json(), **(calibrated or {})}, indent=2), markup=False, soft_wrap=True)
        return
    loaded = {known: load_recipe(known) for known in list_recipes()}
    if not loaded:
        console.print("this catis brings no recipes; `catis tune` makes them")
        return
    rows = []
    for known, recipe in loaded.items():
        made = recipe.made
        budget = None if made is None or made.budget is None else f"{made.budget:.2f}"
        rows.append([known, recipe.reduction.method.name, budget, made.measured if made else ""])
    Table(["name", "method", "budget", "measured"], rows, prose=True).print(console)
