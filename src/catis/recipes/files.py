"""Recipes as files: a folder with a JSON file and, where weights are calibrated, a safetensors file beside it."""

from __future__ import annotations

import json
import os
import tomllib
from collections.abc import Mapping
from dataclasses import asdict
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from torch import nn

from catis import hosts
from catis.files import replacing, write_whole
from catis.hosts.swap import base_class
from catis.recipes.made import Made
from catis.recipes.recipe import Recipe
from catis.recipes.weights_file import WEIGHTS_NAME, read_weights, weights_bytes, weights_entry

FILE_NAME = "catis_recipe.json"
"""Name of a recipe in a folder, such as one that `save_pretrained` wrote."""
NAMED = Path(__file__).parent / "named"
"""The recipes that come with catis, numbers only: one JSON file each, deit_tiny_patch16_224@0.36.json."""
RecipeLike = str | os.PathLike[str] | Mapping[str, Any] | Recipe


def recipe_of(model: nn.Module, made: Made | None = None, **notes: Any) -> Recipe:
    """The recipe of a reduced model, calibrated weights too.

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
    return Recipe(
        reduction, base_class(handle.model).__name__, handle.name, asdict(handle.preprocessing()), handle.labels, notes,
        made or Made(), handle.correction,
    )  # fmt: skip


def save_recipe(model: nn.Module, path: str | os.PathLike[str], made: Made | None = None, **notes: Any) -> Path:
    """Write the recipe of a reduced model, and its calibrated weights beside it if it has any.

    Args:
        model: A model under `catis.apply`.
        path: A folder, made if it is not there, such as the one given to `save_pretrained`; or a file that ends in
            .json.
        made: How it came about, with what was measured.
        notes: Anything else worth keeping with it.

    Returns:
        The JSON file written.
    """
    return write_recipe(recipe_of(model, made, **notes), path)


def write_recipe(recipe: Recipe, path: str | os.PathLike[str]) -> Path:
    """Write a recipe; readers see all of it or none.

    Example:
        >>> import tempfile
        >>> from catis.core.reduction import Reduction
        >>> write_recipe(Recipe(Reduction.of("tome", r=8)), tempfile.mkdtemp()).name
        'catis_recipe.json'
    """
    file, correction = _target(Path(path)), recipe.correction
    beside = file.with_name(WEIGHTS_NAME if file.name == FILE_NAME else f"{file.stem}.{WEIGHTS_NAME}")
    if correction is None:
        write_whole(file, _text(recipe.to_json()))
        beside.unlink(missing_ok=True)  # of the recipe that was replaced
        return file
    content = weights_bytes(correction)
    entry = weights_entry(correction, beside.name, content)
    with replacing(file) as partial:
        partial.write_bytes(_text({**recipe.to_json(), "weights": entry}))
        write_whole(beside, content)  # the recipe follows at once; between the two, its sha256 tells
    return file


def load_recipe(source: RecipeLike) -> Recipe:
    """A recipe from a folder that holds FILE_NAME, a JSON or TOML file, a name, a mapping, or a Recipe.

    Raises:
        FileNotFoundError: No such file or name, or no recipe in the folder.
        ValueError: The content is not a recipe, or its weights are not what it says.

    Example:
        >>> load_recipe({"method": "tome", "r": 8}).reduction.method.name
        'tome'
    """
    if isinstance(source, Recipe):
        return source
    if isinstance(source, Mapping):
        return Recipe.from_json(source)
    file = _file_of(source)
    content = _content(file)
    entry = content.get("weights") if isinstance(content, Mapping) else None
    recipe = Recipe.from_json(content, str(file), None if entry is None else read_weights(entry, file))
    changed = "" if recipe.correction is None else recipe.correction.difference(recipe.reduction)
    if changed:
        raise ValueError(f"{file} was changed since its weights were calibrated: {changed}")
    return recipe


def list_recipes() -> list[str]:
    """Names that `catis.apply(model, recipe=NAME)` takes: of the recipes that come with catis.

    Example:
        >>> all("@" in name for name in list_recipes())
        True
    """
    return sorted(file.name.removesuffix(".json") for file in NAMED.glob("*.json"))


def _content(file: Path) -> Any:
    text, kind = file.read_bytes(), "TOML" if file.suffix == ".toml" else "JSON"
    try:
        return tomllib.loads(text.decode()) if kind == "TOML" else json.loads(text)
    except ValueError as error:
        raise ValueError(f"{file} is not valid {kind}: {error}") from error


def _file_of(source: str | os.PathLike[str]) -> Path:
    path = Path(source)
    if path.is_dir():
        return _in_folder(path)
    if path.exists():
        return path
    name, known = os.fspath(source), list_recipes()
    if name in known:
        return NAMED / f"{name}.json"
    near = get_close_matches(name, known, n=5, cutoff=0.5) or known[:5]
    those = f"close to it: {', '.join(near)}" if near else "this catis brings none"
    raise FileNotFoundError(
        f"recipe {name}: there is no such file or folder, nor a recipe of this name that comes with catis; {those}"
    )


def _in_folder(folder: Path) -> Path:
    file = folder / FILE_NAME
    if file.is_file():
        return file
    inner = sorted(file.parent.name for file in folder.glob(f"*/{FILE_NAME}"))
    if inner:
        known = ", ".join(str(folder / name) for name in inner)
        raise FileNotFoundError(f"{folder} holds no recipe itself but folders with one each; take one of {known}")
    raise FileNotFoundError(f"{folder} holds no recipe: there is no {FILE_NAME} in it")


def _target(path: Path) -> Path:
    """The JSON file to write, in a folder that is there."""
    if path.suffix == ".toml":
        raise ValueError(f"{path}: recipes are written as JSON; give a folder, or a name that ends in .json")
    file = path if path.suffix == ".json" and not path.is_dir() else path / FILE_NAME
    if path.is_file() and path is not file:
        raise ValueError(f"{path} is a file: give a folder, or a name that ends in .json")
    file.parent.mkdir(parents=True, exist_ok=True)
    return file


def _text(content: Mapping[str, Any]) -> bytes:
    """JSON for people: one line for each key, two levels deep, so that a schedule is one line."""
    return (_lines(content, 1) + "\n").encode()


def _lines(value: Any, level: int) -> str:
    if not isinstance(value, Mapping) or not value or level > 2:
        return json.dumps(value, allow_nan=False)
    lines = ",\n".join(f"{'  ' * level}{json.dumps(key)}: {_lines(inner, level + 1)}" for key, inner in value.items())
    return f"{{\n{lines}\n{'  ' * (level - 1)}}}"
