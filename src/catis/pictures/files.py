"""From image files and folders to the figures of `catis show`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn

from catis import hosts
from catis.api import applied
from catis.data.images import BrokenImage, ImageFolder, NoImagesError, read_image
from catis.data.preprocessing import Pixels, Preprocessing
from catis.inference import batch_images, evaluating
from catis.pictures.canvas import Canvas
from catis.pictures.classes import describe_change
from catis.pictures.drawing import contact_sheet
from catis.pictures.patches import EvictedStyle
from catis.pictures.tracing import Trace, trace
from catis.recipes import Recipe


@dataclass(frozen=True)
class Chosen:
    """Image files to draw; on a contact sheet where a folder was named, which leaves broken ones out."""

    files: tuple[Path, ...]
    on_sheet: bool


@dataclass(frozen=True)
class TracedFiles:
    """What a model made of image files.

    Attributes:
        traced: All of them in one batch.
        captions: Of each: its name, and its class before and after.
        broken: Files that could not be read.
    """

    traced: Trace
    captions: Sequence[str]
    broken: Sequence[BrokenImage] = ()

    def sheet(self, number: int, evicted: EvictedStyle = "dim") -> Canvas:
        """Contact sheet after a block, counted from 1."""
        layouts = [layout for at in range(len(self.captions)) for layout in self.traced.layouts(at, [number])]
        return contact_sheet(list(self.traced.images), layouts, self.captions, evicted)


def choose_files(paths: Sequence[Path], limit: int) -> Chosen:
    """Files as they are named, and of every folder so many images, spread evenly over it.

    Raises:
        NoImagesError: A folder has no images.
    """
    files: list[Path] = []
    for path in paths:
        files += [path / name for name in ImageFolder(path, limit=limit).names] if path.is_dir() else [path]
    return Chosen(tuple(files), any(path.is_dir() for path in paths))


def trace_files(model: nn.Module, chosen: Chosen, recipe: Recipe, name: Callable[[int], str]) -> TracedFiles:
    """Trace a model under a recipe on image files, and say what it took each for before and after.

    Args:
        model: A vanilla model; it comes back as it was.
        chosen: Images, all traced in one batch, prepared as the model's configuration says.
        recipe: What to put on it.
        name: How classes are called.

    Raises:
        ValueError: A file that was named is not there, or no image that can be read.
        NoImagesError: None of the images of the folders can be read.
    """
    with applied(model, recipe=recipe):  # what does not fit the model is told before an image is read
        preprocessing = hosts.find(model).preprocessing()
        pixels, names, broken = _read(chosen, preprocessing)
        images = batch_images(pixels, preprocessing, model)
        traced, after = trace(model, images), _classes(model, images)  # a trace may end before the classifier
    before = _classes(model, images)
    if before is None or after is None:
        return TracedFiles(traced, names, broken)
    changes = [describe_change(name(was), name(now)) for was, now in zip(before.tolist(), after.tolist(), strict=True)]
    return TracedFiles(traced, [f"{file}: {change}" for file, change in zip(names, changes, strict=True)], broken)


def _classes(model: nn.Module, images: Tensor) -> Tensor | None:
    with evaluating(model), torch.inference_mode():
        return hosts.find(model).classes(model(images))


def _read(chosen: Chosen, preprocessing: Preprocessing) -> tuple[list[Pixels], list[str], list[BrokenImage]]:
    """Pixels and names of the images that can be read, and what cannot be; a broken file that was named is an error."""
    pixels, names, broken = [], [], []
    for path in chosen.files:
        image = read_image(path, preprocessing)
        if not isinstance(image, BrokenImage):
            pixels.append(image)
            names.append(path.name)
        elif chosen.on_sheet:
            broken.append(image)
        else:
            raise ValueError(f"cannot read image {path}: {image.reason}")
    if not pixels:
        raise NoImagesError(
            f"none of {len(broken)} images can be read; the first, {broken[0].name}: {broken[0].reason}"
        )
    return pixels, names, broken
