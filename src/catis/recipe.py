"""A recipe: a small file beside a model that says how it is reduced, so that the reduction can be put on again."""

from __future__ import annotations

import json
import os
import tomllib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from torch import nn

from catis.core.method import Reduction
from catis.core.schedule import RLike
from catis.hosts import dispatch

__all__ = ["FILE_NAME", "Recipe", "RecipeLike", "load_recipe", "recipe_of", "save_recipe"]

FILE_NAME = "catis_recipe.json"
"""Name of a recipe in a directory, such as one that `save_pretrained` wrote."""


@dataclass(frozen=True)
class Recipe:
    """Everything `catis.apply` needs, as plain data.

    Attributes:
        method: Name of the method.
        r: Tokens per block in any spelling of `catis.apply`; None where the method decides the amounts itself.
        options: Options of the method.
        prop_attn: Whether attention counts sizes.
        model: Class or family it was made for; for people, not checked.
        notes: How it was chosen and what was measured; for people and reports, not read by `apply`.

    Example:
        >>> Recipe("tome", r=8).as_dict()["r"]
        8
    """

    method: str
    r: RLike | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    prop_attn: bool = True
    model: str = ""
    notes: Mapping[str, Any] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        """Plain data, for JSON."""
        return asdict(self)


RecipeLike = str | os.PathLike[str] | Mapping[str, Any] | Recipe


def recipe_of(model: nn.Module) -> Recipe:
    """The recipe of a reduced model.

    Raises:
        ValueError: The model is not reduced.

    Example:
        >>> import catis, timm
        >>> model = catis.apply(timm.create_model("vit_tiny_patch16_224"), "tome", r=8)
        >>> recipe_of(model).r
        8
    """
    target, host = dispatch.find(model)
    settings = host.reduction(target)
    if settings is None:
        raise ValueError(
            f"{type(model).__name__} is not reduced, so it has no recipe: call catis.apply(model, ...) first"
        )
    method = settings.method
    options = {option.name: getattr(method, option.name) for option in fields(method)}
    return Recipe(method.name, _amounts(settings), options, settings.prop_attn, type(target).__name__)


def _amounts(settings: Reduction) -> RLike | None:
    """The shortest spelling of a schedule."""
    if settings.method.own_amounts:
        return None
    schedule = settings.schedule
    if schedule.fraction is not None:
        return schedule.fraction
    amounts = list(schedule.amounts or ())
    return amounts[0] if len(set(amounts)) == 1 else amounts


def save_recipe(model: nn.Module, path: str | os.PathLike[str], **notes: Any) -> Path:
    """Write the recipe of a reduced model as JSON.

    Args:
        model: A model under `catis.apply`.
        path: A file, or a directory (then FILE_NAME in it), such as the one given to `save_pretrained`.
        notes: Anything worth keeping with it.

    Returns:
        The file written.
    """
    recipe = recipe_of(model).as_dict() | {"notes": notes}
    path = Path(path)
    file = path / FILE_NAME if path.is_dir() else path
    file.write_text(json.dumps(recipe, indent=2) + "\n", encoding="utf-8")
    return file


def load_recipe(source: RecipeLike) -> Recipe:
    """A recipe from a JSON or TOML file, a directory that holds FILE_NAME, a mapping, or a Recipe.

    Raises:
        FileNotFoundError: No such file, or none in the directory.
        ValueError: The content is not a recipe.

    Example:
        >>> load_recipe({"method": "tome", "r": 8}).method
        'tome'
    """
    if isinstance(source, Recipe):
        return source
    if isinstance(source, Mapping):
        return _check(source, "recipe")
    path = Path(source)
    file = path / FILE_NAME if path.is_dir() else path
    text = file.read_text(encoding="utf-8")
    try:
        content = tomllib.loads(text) if file.suffix == ".toml" else json.loads(text)
    except ValueError as error:
        raise ValueError(f"{file} is not valid {'TOML' if file.suffix == '.toml' else 'JSON'}: {error}") from error
    return _check(content, str(file))


def _check(content: Any, where: str) -> Recipe:
    known = [option.name for option in fields(Recipe)]
    if not isinstance(content, Mapping) or "method" not in content:
        raise ValueError(
            f"{where} is not a recipe: expected a mapping with the keys {', '.join(known)}; method is needed"
        )
    unknown = sorted(set(content) - set(known))
    if unknown:
        raise ValueError(f"{where} has the unknown keys {', '.join(unknown)}; a recipe has {', '.join(known)}")
    options = {
        name: tuple(value) if isinstance(value, list) else value for name, value in content.get("options", {}).items()
    }
    return Recipe(**{**content, "options": options})
