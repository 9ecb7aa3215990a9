"""Accuracy of a model, plain or reduced, on labelled images."""

from catis.evaluate.cache import ImageCache, default_cache
from catis.evaluate.images import Images, PreparedImages, open_images
from catis.evaluate.metrics import compare
from catis.evaluate.run import LoadedModel, evaluate_run, load, name_run

__all__ = [
    "ImageCache",
    "Images",
    "LoadedModel",
    "PreparedImages",
    "compare",
    "default_cache",
    "evaluate_run",
    "load",
    "name_run",
    "open_images",
]
