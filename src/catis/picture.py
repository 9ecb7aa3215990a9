"""From image files to the figure of `catis show`."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from PIL import Image
from torch import nn

from catis.data.images import BrokenImage, Pixels, Preprocessing, read_image
from catis.draw import stack
from catis.files import replacing
from catis.trace import Trace, trace

__all__ = ["check_target", "draw_traces", "save_png", "trace_files"]


def trace_files(model: nn.Module, files: Sequence[str | Path]) -> Trace:
    """Trace a reduced model on image files, prepared as timm's configuration of the model says.

    Args:
        model: A model under `catis.apply`.
        files: Images, all traced in one batch.

    Raises:
        ValueError: A file is not there, or no image that can be read.
    """
    preprocessing = Preprocessing.for_model(model)
    pixels = [_read(Path(file), preprocessing) for file in files]
    return trace(model, preprocessing.normalise(pixels))


def _read(path: Path, preprocessing: Preprocessing) -> Pixels:
    found = read_image(path, preprocessing)
    if isinstance(found, BrokenImage):
        raise ValueError(f"cannot read image {path}: {found.reason}")
    return found


def draw_traces(seen: Trace, after: Sequence[int] = (3, 6, 9, 12)) -> Image.Image:
    """The figures of all images of a trace, below each other."""
    return stack([seen.show(image, after) for image in range(len(seen.images))])


def check_target(path: Path) -> None:
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
