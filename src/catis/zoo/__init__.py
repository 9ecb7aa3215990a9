"""Embedded models and data: trained Vision Transformers and a procedural image set, with no network.

>>> import catis.zoo
>>> model = catis.zoo.load("tiny-12")
>>> data = catis.zoo.dataset("clean", split="test", n=1000)
>>> image, label = data[0]
>>> image.shape, data.classes[label]
((96, 96, 3), 'anchor')

``docs/zoo.md`` is the model card: how both were made and what they can show.
"""

from catis.zoo.dataset import ZooDataset, dataset, normalise
from catis.zoo.models import MEAN, STD, WeightsError, cards, list_models, load
from catis.zoo.streams import SPLITS, VIEWS

__all__ = [
    "MEAN", "SPLITS", "STD", "VIEWS", "WeightsError", "ZooDataset", "cards", "dataset", "list_models", "load",
    "normalise",
]  # fmt: skip
