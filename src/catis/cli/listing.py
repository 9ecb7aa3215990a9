"""`catis methods` and `catis recipes`: what there is to choose from, or one recipe as it is written."""

from __future__ import annotations

import json
from typing import Annotated

import typer
from rich.console import Console

from catis.report.table import Cell, Table


def methods_command() -> None:
    """List the methods with the package each comes from and its options with their defaults."""
    from catis.registry import describe_methods

    rows = [
        [
            method.name,
            method.origin,
            Cell(method.problem, "bad")
            if method.problem
            else ", ".join(f"{name}={value!r}" for name, value in method.options.items()),
        ]
        for method in describe_methods()
    ]
    Table(["method", "from", "options"], rows, prose=True).print(Console(highlight=False))


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
