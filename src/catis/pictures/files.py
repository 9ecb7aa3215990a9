"""From image files and folders to the file of `catis show`: figures below each other, or one contact sheet."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from torch import Tensor, nn

from catis import hosts
from catis.api import applied
from catis.data.images import BrokenImage, ImageFolder, NoImagesError, read_image
from catis.data.preprocessing import Pixels, Preprocessing
from catis.files import write_whole
from catis.inference import batch_images, evaluating
from catis.pictures.canvas import Canvas, below
from catis.pictures.classes import describe_change
from catis.pictures.drawing import Look, contact_sheet
from catis.pictures.formats import as_gif, as_png, as_svg
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
    """What a model made of image files."""

    traced: Trace  # all of them in one batch
    captions: Sequence[str]  # of each: its name, and its class before and after
    broken: Sequence[BrokenImage] = ()  # files that could not be read

    def sheet(self, number: int, evicted: EvictedStyle = "dim") -> Canvas:
        """Contact sheet after a block, counted from 1."""
        layouts = [layout for at in range(len(self.captions)) for layout in self.traced.layouts(at, [number])]
        return contact_sheet(list(self.traced.images), layouts, self.captions, evicted)


def choose_files(paths: Sequence[Path], limit: int) -> Chosen:
    """Files as they are named, and of every folder so many images, spread evenly over it."""
    files: list[Path] = []
    for path in paths:
        files += [path / name for name in ImageFolder(path, limit=limit).names] if path.is_dir() else [path]
    return Chosen(tuple(files), any(path.is_dir() for path in paths))


def trace_files(model: nn.Module, chosen: Chosen, recipe: Recipe, name: Callable[[int], str]) -> TracedFiles:
    """Trace a model under a recipe on image files, and say what it took each for before and after."""
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


def write_figures(seen: TracedFiles, path: Path, after: Sequence[int] | None, look: Look, *, on_sheet: bool) -> None:
    """Write what a model made of image files, by the ending of the file's name.

    Args:
        path: `.png`, `.svg`, or `.gif` with the blocks as frames.
        after: Blocks to draw, counted from 1; None for the quarters of the depth, all for a GIF, the last on a sheet.
        on_sheet: One contact sheet in place of a figure for each.
    """
    depth = len(seen.traced)
    if path.suffix.lower() == ".gif":
        numbers = [number for number in after or range(1, depth + 1) if number <= depth]
        frames = [seen.sheet(number, look.evicted) for number in numbers] if on_sheet else _frames(seen, numbers, look)
        write_whole(path, as_gif(frames))
        return
    if on_sheet:
        canvas = below([seen.sheet(number, look.evicted) for number in after or [depth] if number <= depth])
    else:
        canvas = below([seen.traced.canvas(at, after, _of_image(seen, at, look)) for at in range(len(seen.captions))])
    write_whole(path, as_png(canvas) if path.suffix.lower() == ".png" else as_svg(canvas, "; ".join(seen.captions)))


def _frames(seen: TracedFiles, numbers: Sequence[int], look: Look) -> list[Canvas]:
    images = range(len(seen.captions))
    each = [seen.traced.frames(at, numbers, _of_image(seen, at, look)) for at in images]
    return [below(frame) for frame in zip(*each, strict=True)]


def _of_image(seen: TracedFiles, at: int, look: Look) -> Look:
    """Its own caption; one legend, below the last image."""
    return replace(look, caption=seen.captions[at], legend=at == len(seen.captions) - 1)


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
