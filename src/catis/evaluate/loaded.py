"""A model that is ready to be evaluated, and what every run of it needs to know."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import nn

from catis.data.preprocessing import Preprocessing
from catis.errors import CatisError
from catis.evaluate.cache import ImageCache
from catis.evaluate.images import StreamedImages, open_images
from catis.runs.identity import weights_hash
from catis.runs.spec import ModelSpec, RunSpec

__all__ = ["LoadedModel", "load"]


@dataclass(frozen=True)
class LoadedModel:
    """A model and what every run of it needs to know.

    Attributes:
        module: The model, plain, in eval mode.
        preprocessing: How it wants its images.
        weights: Hash of its weights.
        num_classes: Classes it tells apart.
        class_names: Their names in order, if the model has any.
    """

    module: nn.Module
    preprocessing: Preprocessing
    weights: str
    num_classes: int
    class_names: tuple[str, ...] = ()

    def images(self, spec: RunSpec, *, workers: int = 1, cache: ImageCache | None = None) -> StreamedImages:
        """The run's data set, prepared for this model."""
        return open_images(
            spec.data,
            self.preprocessing,
            self.num_classes,
            class_names=self.class_names,
            workers=workers,
            cache=cache,
        )


def load(spec: ModelSpec, seed: int = 0) -> LoadedModel:
    """Load a model; the seed decides the weights of one that has none.

    Example:
        >>> load(ModelSpec("tiny-6")).num_classes
        24
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model, preprocessing = spec.load()
    return LoadedModel(model, preprocessing, weights_hash(model), _num_classes(model), _class_names(model))


def _num_classes(model: nn.Module) -> int:
    found = getattr(model, "num_classes", None) or getattr(getattr(model, "config", None), "num_labels", None)
    if not found:
        raise CatisError(f"{type(model).__name__} has no classifier: there are no classes to compare with labels")
    return int(found)


def _class_names(model: nn.Module) -> tuple[str, ...]:
    """Names of the classes of a transformers model; those it makes up itself, LABEL_0 and so on, are none."""
    names = getattr(getattr(model, "config", None), "id2label", None) or {}
    said = tuple(str(names[place]) for place in sorted(names))
    return () if all(name.startswith("LABEL_") for name in said) else said
