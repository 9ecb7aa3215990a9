"""From image files to the figure of `catis show`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import torch
from torch import nn

from catis import hosts
from catis.api import applied
from catis.data.images import BrokenImage, Pixels, Preprocessing, read_image
from catis.inference import batch_images, evaluating
from catis.pictures.classes import describe_change
from catis.pictures.tracing import Trace, trace
from catis.recipes import Recipe

__all__ = ["trace_files"]


def trace_files(
    model: nn.Module, files: Sequence[Path], recipe: Recipe, name: Callable[[int], str]
) -> tuple[Trace, list[str]]:
    """Trace a model under a recipe on image files, and say what it took each for before and after.

    Args:
        model: A vanilla model; it comes back as it was.
        files: Images, all traced in one batch, prepared as the model's configuration says.
        recipe: What to put on it.
        name: How classes are called.

    Raises:
        ValueError: A file is not there, or no image that can be read.
    """
    with applied(model, recipe=recipe):  # what does not fit the model is told before an image is read
        handle = hosts.find(model)
        preprocessing = handle.preprocessing()
        images = batch_images([_read(file, preprocessing) for file in files], preprocessing, model)
        traced = trace(model, images)
    after = handle.classes(traced.output)
    with evaluating(model), torch.inference_mode():
        before = handle.classes(model(images))
    if before is None or after is None:
        return traced, [file.name for file in files]
    changes = [describe_change(name(was), name(now)) for was, now in zip(before.tolist(), after.tolist(), strict=True)]
    return traced, [f"{file.name}: {change}" for file, change in zip(files, changes, strict=True)]


def _read(path: Path, preprocessing: Preprocessing) -> Pixels:
    image = read_image(path, preprocessing)
    if isinstance(image, BrokenImage):
        raise ValueError(f"cannot read image {path}: {image.reason}")
    return image
