"""Recipes that come with catis, by name: schedules and options found for real models; numbers only, no weights."""

from __future__ import annotations

from difflib import get_close_matches
from pathlib import Path

FOLDER = Path(__file__).parent / "named"
"""One JSON file per recipe, called as the recipe is: deit_tiny_patch16_224@0.36.json."""


def list_recipes() -> list[str]:
    """Names that `catis.apply(model, recipe=NAME)` takes.

    Example:
        >>> all("@" in name for name in list_recipes())
        True
    """
    return sorted(file.name.removesuffix(".json") for file in FOLDER.glob("*.json"))


def named_file(name: str) -> Path | None:
    """Its file; None if there is no recipe of this name."""
    return FOLDER / f"{name}.json" if name in list_recipes() else None


def unknown_recipe(name: str) -> str:
    """The sentence for a recipe that is neither there as a file nor by name."""
    known = list_recipes()
    near = get_close_matches(name, known, n=5, cutoff=0.5) or known[:5]
    those = f"close to it: {', '.join(near)}" if near else "this catis brings none"
    return f"recipe {name}: there is no such file or folder, nor a recipe of this name that comes with catis; {those}"
