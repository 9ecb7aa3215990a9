"""A recipe: a small file beside a model that says how it is reduced, so that the reduction can be put on again."""

from __future__ import annotations

import json
import os
import tomllib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from torch import nn

from catis import hosts
from catis.core.reduction import Reduction
from catis.files import write_whole
from catis.hosts.swap import base_class

__all__ = ["FILE_NAME", "Recipe", "RecipeLike", "load_recipe", "recipe_of", "save_recipe"]

FILE_NAME = "catis_recipe.json"
"""Name of a recipe in a directory, such as one that `save_pretrained` wrote."""
_ABOUT = ("model", "preprocessing", "labels", "notes")


@dataclass(frozen=True)
class Recipe:
    """A reduction, and what people should know of it.

    Attributes:
        reduction: What `catis.apply` puts on the model.
        model: Class or family it was made for; for people, not checked.
        preprocessing: How the model wants its images, the fields of `catis.data.preprocessing.Preprocessing`; for
            whoever runs the model without catis, not read by `apply`.
        labels: What its classes are called, in order; empty if the model does not say.
        notes: How it was chosen and what was measured; for people and reports, not read by `apply`.

    Example:
        >>> Recipe(Reduction.of("tome", r=8)).to_json()["r"]
        8
    """

    reduction: Reduction
    model: str = ""
    preprocessing: Mapping[str, Any] = field(default_factory=dict)
    labels: tuple[str, ...] = ()
    notes: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def from_json(cls, content: Any, where: str = "recipe") -> Recipe:
        """A recipe from plain data: the keys of a reduction, beside `model`, `preprocessing`, `labels` and `notes`.

        Raises:
            ValueError: The content is not a recipe; the message begins with `where`.
        """
        if not isinstance(content, Mapping) or "method" not in content:
            raise ValueError(f"{where} is not a recipe: expected a mapping with at least the keys method and r")
        about = {name: content[name] for name in _ABOUT if name in content}
        reduction = {name: value for name, value in content.items() if name not in about}
        return cls(Reduction.from_json(reduction, where), **{**about, "labels": tuple(about.get("labels", ()))})

    def to_json(self) -> dict[str, Any]:
        """Plain data, the inverse of `from_json`."""
        about = {"preprocessing": dict(self.preprocessing), "labels": list(self.labels), "notes": dict(self.notes)}
        return {**self.reduction.to_json(), "model": self.model, **about}


RecipeLike = str | os.PathLike[str] | Mapping[str, Any] | Recipe


def recipe_of(model: nn.Module, **notes: Any) -> Recipe:
    """The recipe of a reduced model.

    Raises:
        ValueError: The model is not reduced.

    Example:
        >>> import catis, timm
        >>> model = catis.apply(timm.create_model("vit_tiny_patch16_224"), "tome", r=8)
        >>> str(recipe_of(model).reduction)
        'tome r=8'
    """
    handle = hosts.find(model)
    reduction = handle.reduction
    if reduction is None:
        raise ValueError(
            f"{type(model).__name__} is not reduced, so it has no recipe: call catis.apply(model, ...) first"
        )
    return Recipe(reduction, base_class(handle.model).__name__, asdict(handle.preprocessing()), handle.labels, notes)


def save_recipe(model: nn.Module, path: str | os.PathLike[str], **notes: Any) -> Path:
    """Write the recipe of a reduced model as JSON.

    Args:
        model: A model under `catis.apply`.
        path: A file, or a directory (then FILE_NAME in it), such as the one given to `save_pretrained`.
        notes: Anything worth keeping with it.

    Returns:
        The file written.
    """
    text = json.dumps(recipe_of(model, **notes).to_json(), indent=2) + "\n"
    file = _file(path)
    write_whole(file, text.encode())
    return file


def load_recipe(source: RecipeLike) -> Recipe:
    """A recipe from a JSON or TOML file, a directory that holds FILE_NAME, a mapping, or a Recipe.

    Raises:
        FileNotFoundError: No such file, or none in the directory.
        ValueError: The content is not a recipe.

    Example:
        >>> load_recipe({"method": "tome", "r": 8}).reduction.method.name
        'tome'
    """
    if isinstance(source, Recipe):
        return source
    if isinstance(source, Mapping):
        return Recipe.from_json(source)
    file = _file(source)
    text = file.read_text(encoding="utf-8")
    try:
        content = tomllib.loads(text) if file.suffix == ".toml" else json.loads(text)
    except ValueError as error:
        raise ValueError(f"{file} is not valid {'TOML' if file.suffix == '.toml' else 'JSON'}: {error}") from error
    return Recipe.from_json(content, str(file))


def _file(path: str | os.PathLike[str]) -> Path:
    path = Path(path)
    return path / FILE_NAME if path.is_dir() else path
