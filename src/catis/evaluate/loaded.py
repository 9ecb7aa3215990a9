"""A model that is ready to be evaluated, and what every run of it needs to know."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import nn

from catis import hosts
from catis.data.preprocessing import Preprocessing
from catis.errors import CatisError
from catis.evaluate.cache import ImageCache
from catis.evaluate.images import StreamedImages, open_images
from catis.hosts.weights import weights_hash
from catis.runs.spec import ModelSpec, RunSpec


@dataclass(frozen=True)
class LoadedModel:
    """A model and what every run of it needs to know."""

    module: nn.Module  # the model, vanilla, in eval mode
    preprocessing: Preprocessing  # how it wants its images
    weights: str  # hash of its weights
    num_classes: int  # classes it tells apart
    class_names: tuple[str, ...] = ()  # their names in order, if the model has any

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
    handle = hosts.find(model)
    if handle.num_classes == 0:
        raise CatisError(f"{type(model).__name__} has no classifier: there are no classes to compare with labels")
    return LoadedModel(model, preprocessing, weights_hash(model.state_dict()), handle.num_classes, handle.class_names)
