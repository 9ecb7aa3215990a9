"""From image files to the figure of `catis show`."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from PIL import Image
from torch import nn

from catis.api import applied
from catis.core.schedule import RLike
from catis.data.images import BrokenImage, Pixels, Preprocessing, read_image
from catis.files import replacing
from catis.inference import batch_images, classes, evaluating
from catis.pictures.classes import describe_change
from catis.pictures.tracing import Trace, trace

__all__ = ["check_picture", "save_png", "trace_files"]


def trace_files(
    model: nn.Module, files: Sequence[Path], method: str, r: RLike, name: Callable[[int], str], **options: Any
) -> tuple[Trace, list[str]]:
    """Trace a model under a reduction on image files, and say what it took each for before and after.

    Args:
        model: A vanilla model; it comes back as it was.
        files: Images, all traced in one batch, prepared as the model's configuration says.
        method: Method to reduce with.
        r: Its amount, in any spelling of `catis.apply`.
        name: How classes are called.
        options: Options of the method.

    Raises:
        ValueError: A file is not there, or no image that can be read.
    """
    with applied(model, method, r=r, **options):  # a wrong amount or option is told before an image is read
        preprocessing = Preprocessing.for_model(model)
        images = batch_images([_read(file, preprocessing) for file in files], preprocessing, model)
        traced = trace(model, images)
    after = classes(model, traced.output)
    with evaluating(model), torch.inference_mode():
        before = classes(model, model(images))
    if before is None or after is None:
        return traced, [file.name for file in files]
    changes = [describe_change(name(was), name(now)) for was, now in zip(before.tolist(), after.tolist(), strict=True)]
    return traced, [f"{file.name}: {change}" for file, change in zip(files, changes, strict=True)]


def _read(path: Path, preprocessing: Preprocessing) -> Pixels:
    image = read_image(path, preprocessing)
    if isinstance(image, BrokenImage):
        raise ValueError(f"cannot read image {path}: {image.reason}")
    return image


def check_picture(path: Path) -> None:
    """Refuse, before any work is done, a file that could not be written.

    Raises:
        ValueError: It is no PNG, its folder is missing, or it is a folder.
    """
    if path.suffix.lower() != ".png":
        raise ValueError(f"--out {path}: expected a name that ends in .png")
    if path.is_dir() or not path.parent.is_dir():
        raise ValueError(f"--out {path}: {'it is a folder' if path.is_dir() else f'there is no folder {path.parent}'}")
    if not os.access(path.parent, os.W_OK):
        raise ValueError(f"--out {path}: the folder {path.parent.resolve()} cannot be written to")


def save_png(image: Image.Image, path: Path) -> None:
    """Write a PNG whole or not at all."""
    with replacing(path) as partial:
        image.save(partial, format="PNG")
