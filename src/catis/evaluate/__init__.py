"""Accuracy of a model, vanilla or reduced, on labelled images."""

from catis.evaluate.cache import ImageCache
from catis.evaluate.images import open_images
from catis.evaluate.loaded import LoadedModel, load
from catis.evaluate.metrics import compare
from catis.evaluate.run import evaluate_run, identify

__all__ = [
    "ImageCache", "LoadedModel", "compare", "evaluate_run", "identify", "load", "open_images",
]  # fmt: skip
