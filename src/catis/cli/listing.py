"""`catis methods`, `catis recipes` and `catis gmacs`: what there is to choose from, and what it costs."""

from __future__ import annotations

import json
from typing import Annotated

import typer
from rich.console import Console

from catis.cli import arguments as shared
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
    Table(["name", "method", "budget", "measured"], rows).print(console)


def gmacs_command(
    model: shared.ModelName,
    r: shared.AmountOrNone = None,
    budget: shared.Budget = None,
    method: shared.MethodName = None,
    option: shared.Options = None,
    img_size: shared.ImageSize = None,
    model_kwargs: shared.ModelKwargs = None,
) -> None:
    """Count multiply-adds, vanilla and reduced. No weights are made, so models of any size are quick.

    Example: catis gmacs vit_small_patch16_224 --budget 0.5
    """
    schedule, options = shared.given_amount(r, budget), shared.parse_options(option)
    if schedule is None:
        raise ValueError("how many tokens go? Give -r 13, or a share of the multiply-adds: --budget 0.5")

    from catis.api import wanted_reduction
    from catis.macs import compare_macs
    from catis.models import build_model

    reduction = wanted_reduction(method, r=schedule, **options)
    cost = compare_macs(build_model(model, device="meta", **shared.model_settings(model_kwargs, img_size)), reduction)
    say = Console(highlight=False, soft_wrap=True).print
    say(f"{model}, {cost.patches} patches + {cost.prefix} prefix tokens, {reduction}")
    say(f"vanilla   {cost.vanilla:10.2f} GMACs")
    say(f"reduced   {cost.reduced:10.2f} GMACs, {cost.reduced / cost.vanilla:.1%} of vanilla")
    say(f"matching  {cost.overhead:10.2f} GMACs on top, for choosing tokens")
    say(f"patch tokens after each block: {' '.join(map(str, cost.tokens))}")
