"""What can be chosen on the page: models, and for each of them methods and recipes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from torch import nn

from catis import hosts
from catis.app.onnx_model import OnnxModel, open_onnx
from catis.models import load_model
from catis.recipes import FILE_NAME, Recipe, list_recipes, load_recipe
from catis.registry import list_methods

Model = nn.Module | OnnxModel
RECIPE = "recipe "
"""How the name of a recipe begins in the menu of methods."""


@dataclass(frozen=True)
class Named:
    """A model by the words that load it: those of `--model`."""

    name: str  # a name, folder or file
    checkpoint: Path | None = None  # file with its weights, if they do not come with the name
    pretrained: bool = False  # whether they come from the hub

    def load(self) -> Model:
        """The model: an ONNX file, or one that PyTorch runs, which must be one that can be reduced."""
        if self.name.endswith(".onnx"):
            return open_onnx(Path(self.name))
        model = load_model(self.name, self.checkpoint, self.pretrained)
        _ = hosts.find(model).facts
        return model

    @property
    def python(self) -> str:
        """The call that loads it, as Python."""
        more = "" if self.checkpoint is None else f", checkpoint={str(self.checkpoint)!r}"
        return f"load_model({self.name!r}{more}{', pretrained=True' if self.pretrained else ''})"


@dataclass(frozen=True)
class Choices:
    """Everything that the page offers; nothing in it is changed by a user."""

    models: Mapping[str, Model]  # by name, in the order of the menu
    named: Mapping[str, Named]  # how each was loaded
    recipes: Mapping[str, Recipe]  # those that were given, by what the menu calls them

    def ways(self, model: str) -> list[str]:
        """Methods and recipes for a model: CATIS first, then recipes, those that come with catis too."""
        chosen = self.models[model]
        if isinstance(chosen, OnnxModel):
            return ["as exported"]
        own = hosts.find(chosen).name.split(".")[0]
        shipped = [RECIPE + name for name in list_recipes() if name.split("@")[0] in (own, model)]
        others = [name for name in list_methods() if name != "catis"]
        return ["catis", *self.recipes, *shipped, *others]

    def recipe(self, way: str) -> Recipe | None:
        """The recipe that a menu entry stands for; None for a method."""
        if not way.startswith(RECIPE):
            return None
        return self.recipes[way] if way in self.recipes else load_recipe(way.removeprefix(RECIPE))

    def twin(self, file: OnnxModel) -> str | None:
        """Of the models here, the one that an exported file was made of: by its name, or the only one that it fits."""
        if file.recipe is None:
            return None
        here = {name: hosts.find(model) for name, model in self.models.items() if isinstance(model, nn.Module)}
        named = [name for name, handle in here.items() if file.recipe.name and file.recipe.name in (name, handle.name)]
        fitting = [name for name, handle in here.items() if handle.labels == file.labels and _fits(handle, file)]
        return named[0] if named else fitting[0] if len(fitting) == 1 else None


def load_choices(models: Sequence[Named], recipes: Sequence[Path] = ()) -> Choices:
    """Load all models and recipes, so that what is wrong with them is said before the page opens."""
    loaded = {Path(named.name).name if Path(named.name).exists() else named.name: named for named in models}
    given = {
        f"{RECIPE}{folder.relative_to(path.parent) if path.parent != folder else folder.name}": load_recipe(folder)
        for path in recipes
        for folder in _folders(path)
    }
    return Choices({title: named.load() for title, named in loaded.items()}, loaded, given)


def split_checkpoint(text: str) -> tuple[str, Path | None]:
    """The two sides of NAME=FILE.

    Example:
        >>> split_checkpoint("tiny-12"), split_checkpoint("vit_tiny_patch16_224=a.pth")
        (('tiny-12', None), ('vit_tiny_patch16_224', PosixPath('a.pth')))
    """
    name, equals, file = text.partition("=")
    return name, Path(file) if equals else None


def _fits(handle: hosts.Handle, file: OnnxModel) -> bool:
    """Whether a model takes images of the file's size and its reduction, which may be for another depth."""
    assert file.recipe is not None
    try:
        handle.bind(file.recipe.reduction)
    except ValueError:
        return False
    return handle.preprocessing().size == file.preprocessing.size


def _folders(path: Path) -> list[Path]:
    """A recipe, or all those in the folders of a tuning at several budgets."""
    inner = sorted(file.parent for file in path.glob(f"*/{FILE_NAME}"))
    return inner if inner and not (path / FILE_NAME).is_file() else [path]
