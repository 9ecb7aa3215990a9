"""Measures r_crit of a model and a method on images, by bisection: with labels, or without any."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from catis import hosts
from catis.api import applied
from catis.core.method import Method
from catis.data.batches import batches
from catis.data.images import ImageArrays, ImageFolder, ImageSource
from catis.data.preprocessing import Preprocessing
from catis.diagnostics.critical import DROP, CriticalR, find_critical_r
from catis.inference import batch_images, evaluating


def measure_critical_r(
    model: nn.Module,
    data: str | Path | Sequence[Any],
    method: str | Method = "catis",
    *,
    labels: Sequence[int] | None = None,
    drop: float = DROP,
    r_max: int | None = None,
    batch_size: int = 16,
    limit: int | None = None,
    workers: int = 1,
    preprocessing: Preprocessing | None = None,
    **options: Any,
) -> CriticalR:
    """Smallest r that loses more than 5 points: of accuracy with labels, of agreement with vanilla without.

    Args:
        data: A folder of images, or a sequence of uint8 arrays.
        labels: Class of each image, in the order of the data; None measures agreement.
        drop: Points that may be lost, as a share.
        r_max: Largest r to try; by default half of the patch tokens, the most that one block can remove.

    Example:
        >>> import numpy as np, timm
        >>> model = timm.create_model("vit_tiny_patch16_224", depth=3, img_size=64, num_classes=10)
        >>> images = list(np.random.default_rng(0).integers(0, 256, (8, 64, 64, 3), dtype=np.uint8))
        >>> measure_critical_r(model, images, "tome").scores[0]
        1.0
    """
    prepared = preprocessing or hosts.find(model).preprocessing()
    source = image_source(data, prepared, limit)

    def run() -> NDArray[np.int64]:
        return predict_classes(model, source, prepared, batch_size, workers)

    with evaluating(model), applied(model, "tome", r=0):
        vanilla = run()
    truth = vanilla if labels is None else np.asarray(labels)
    if truth.shape != vanilla.shape:
        raise ValueError(f"{len(truth)} labels for {len(vanilla)} images that could be read: expected one each")

    def score(r: int) -> float:
        with applied(model, method, r=r, **options):
            return float((run() == truth).mean())

    largest = r_max or _num_patches(model, prepared) // 2
    return find_critical_r(score, largest, float((vanilla == truth).mean()), drop)


def predict_classes(
    model: nn.Module, source: ImageSource, preprocessing: Preprocessing, batch_size: int, workers: int = 1
) -> NDArray[np.int64]:
    """Predicted class of every image that can be read."""
    handle, predictions = hosts.find(model), []
    with evaluating(model), torch.inference_mode():
        for batch in batches(source, batch_size, workers):
            if batch.pixels:
                predicted = handle.classes(model(batch_images(batch.pixels, preprocessing, model)))
                if predicted is None:
                    raise ValueError(f"{type(model).__name__} is no classifier: r_crit needs predicted classes")
                predictions.append(predicted.cpu().numpy())
    return np.concatenate(predictions) if predictions else np.zeros(0, dtype=np.int64)


def _num_patches(model: nn.Module, preprocessing: Preprocessing) -> int:
    """Patch tokens of one image, seen by running one."""
    handle, tokens = hosts.find(model), list[int]()
    blank = batch_images([np.zeros((*preprocessing.size, 3), np.uint8)], preprocessing, model)
    with evaluating(model), torch.inference_mode(), applied(model, "tome", r=0):
        handle.watch(blank, lambda block: tokens.append(block.tokens.shape[1]))
    return tokens[0] - handle.facts.num_prefix


def image_source(data: str | Path | Sequence[Any], preprocessing: Preprocessing, limit: int | None) -> ImageSource:
    """A folder's images, or the arrays given."""
    if isinstance(data, (str, Path)):
        return ImageFolder(data, preprocessing, limit)
    if not (hasattr(data, "__len__") and hasattr(data, "__getitem__")):
        raise ValueError(
            f"data is a {type(data).__name__}: expected a folder or a sequence of uint8 (H, W, 3) arrays, since they "
            "are corrupted here before they are normalised; a DataLoader or an iterable gives batches that are"
        )
    if len(data) == 0:
        raise ValueError("no images were given: expected a folder or a sequence of uint8 (H, W, 3) arrays")
    return ImageArrays(data if limit is None else [data[i * len(data) // limit] for i in range(min(limit, len(data)))])
