"""Opens a data set: where its images are, which class folder each is in, and how to see that it has changed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import PIL
from PIL import Image

import catis
from catis.data.batches import Damage
from catis.data.corruptions import corrupt
from catis.data.images import BrokenImage, ImageFolder, ImageSource
from catis.data.preprocessing import Pixels, Preprocessing
from catis.runs.data_names import ZOO
from catis.runs.spec import CORRUPTED, DataSpec
from catis.zoo.dataset import ZooDataset, dataset

ZOO_IMAGES = 2400
"""Images of an embedded view unless a limit is set: what the cards of the zoo's models are measured on."""


@dataclass(frozen=True)
class OpenData:
    """A data set that is there to be read.

    Attributes:
        source: Reads prepared images by index.
        folders: Class folder of every image; its class for the embedded set.
        classes: All class folders, sorted, with images or without; all classes of the embedded set, in order.
        sizes: Bytes of every file; 0 for images that are made on demand.
        stamps: Whatever changes when the pixels do, for the cache; paths and times of files.
        damage: Makes the corrupted version, None if the images are taken as they are.
        shape: Of a prepared image, (H, W, 3), or of the views of a clip, (V, T, H, W, 3).
        made: What images that are made on demand are made of, or how clips are sampled; None for image files.
    """

    source: ImageSource
    folders: Sequence[str]
    classes: Sequence[str]
    sizes: Sequence[int]
    stamps: Any
    damage: Damage | None
    shape: tuple[int, ...]
    made: Any = None


def open_data(spec: DataSpec, preprocessing: Preprocessing) -> OpenData:
    """Find the images of a data set; none is read yet.

    Raises:
        NoImagesError: There are none.
        ValueError: An image lies outside any class folder.

    Example:
        >>> opened = open_data(DataSpec("zoo-clean", limit=24), Preprocessing((96, 96), 1.0))
        >>> len(opened.source), opened.folders[0]
        (24, 'anchor')
    """
    if spec.name in ZOO:
        return _open_zoo(spec, preprocessing)
    root = spec.folder
    if root is None:
        raise ValueError(f"data {spec.name!r} has no folder: expected one, or one of {', '.join(ZOO)}")
    generated = spec.corruption is not None and spec.name != CORRUPTED
    source = ImageFolder(root, preprocessing, spec.limit)
    sizes, times = file_facts(root, source.names)
    stamps = [str(root.resolve()), PIL.__version__, times]
    folders = [_folder(root, name) for name in source.names]
    classes = sorted(path.name for path in root.iterdir() if path.is_dir() and not path.name.startswith("."))
    return OpenData(source, folders, classes, sizes, stamps, _damage(spec, generated), (*preprocessing.size, 3))


def _open_zoo(spec: DataSpec, preprocessing: Preprocessing) -> OpenData:
    view = spec.name.removeprefix("zoo-")
    generated = spec.corruption is not None and view != "corrupted"
    named = {} if generated or spec.corruption is None else {"corruption": spec.corruption, "severity": spec.severity}
    images = dataset(view, "test", spec.limit or ZOO_IMAGES, **named)  # type: ignore[arg-type]
    folders = [images.classes[index % len(images.classes)] for index in range(len(images))]
    source = _ZooImages(images, preprocessing)
    sizes, made = [0] * len(images), [view, *named.values()]
    damage, shape = _damage(spec, generated), (*preprocessing.size, 3)
    return OpenData(source, folders, images.classes, sizes, [catis.__version__], damage, shape, made)


class _ZooImages:
    """The embedded set, prepared as files are; its seed is that of the set the model cards report."""

    def __init__(self, images: ZooDataset, preprocessing: Preprocessing) -> None:
        self._images, self._preprocessing = images, preprocessing

    def __len__(self) -> int:
        return len(self._images)

    def name(self, index: int) -> str:
        return f"{self._images.split}-{index:05d}"

    def read(self, index: int) -> Pixels | BrokenImage:
        return self._preprocessing.pixels(Image.fromarray(self._images[index][0]))


def _damage(spec: DataSpec, generated: bool) -> Damage | None:
    if not generated:
        return None
    return partial(corrupt, name=str(spec.corruption), severity=int(spec.severity or 0))


def file_facts(root: Path, names: Sequence[str]) -> tuple[list[int], list[int]]:
    """Sizes and times of files."""
    sizes, times = zip(*(_stat(root / name) for name in names), strict=True)
    return list(sizes), list(times)


def _stat(path: Path) -> tuple[int, int]:
    """Size and time of a file; a link that leads nowhere is found broken when it is read."""
    try:
        status = path.stat()
    except OSError:
        return -1, 0
    return status.st_size, status.st_mtime_ns


def _folder(root: Path, name: str) -> str:
    folder, slash, _ = name.partition("/")
    if not slash:
        raise ValueError(f"{root / name} is in no class folder: expected {root}/CLASS/IMAGE")
    return folder
