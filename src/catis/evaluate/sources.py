"""Opens a data set of images or clips: where they are, the class folder of each, and how to see that it has changed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
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
from catis.data.video import ClipFolder
from catis.data.video_decode import import_av
from catis.data.video_lists import ClipData
from catis.runs.data_names import ZOO
from catis.runs.spec import CORRUPTED, DataSpec
from catis.zoo.dataset import ZooDataset, dataset

ZOO_IMAGES = 2400
"""Images of an embedded view unless a limit is set: what the cards of the zoo's models are measured on."""


@dataclass(frozen=True)
class OpenData:
    """A data set that is there to be read."""

    source: ImageSource  # reads prepared images by index
    folders: Sequence[str]  # class folder of every image; its class for the embedded set
    # All class folders, sorted, with images or without; all classes of the embedded set, in order.
    classes: Sequence[str]
    sizes: Sequence[int]  # bytes of every file; 0 for images that are made on demand
    stamps: Any  # whatever changes when the pixels do, for the cache; paths and times of files
    damage: Damage | None  # makes the corrupted version, None if the images are taken as they are
    shape: tuple[int, ...]  # of a prepared image, (H, W, 3), or of the views of a clip, (V, T, H, W, 3)
    made: Any = None  # what images that are made on demand are made of, or how clips are sampled; None for image files


def open_data(spec: DataSpec, preprocessing: Preprocessing) -> OpenData:
    """Find the images of a data set; none is read yet.

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


def open_clips(spec: DataSpec, preprocessing: Preprocessing) -> OpenData:
    """Find the clips of a data set; none is read yet."""
    named = ClipData.parse(spec.name)
    if named is None:
        raise ValueError(f"data {spec.name!r}: the model takes clips; pass ucf101=DIR, or clips=DIR for class folders")
    if preprocessing.frames is None:
        raise ValueError(f"data {spec.name!r} is a set of clips, and the model takes images; use a video model")
    if spec.root is None:
        raise ValueError(f"data {spec.name!r} has no folder: expected {spec.name}=DIR")
    if spec.corruption is not None:
        raise ValueError(f"data {spec.title!r}: corruptions are made for images, not for clips")
    sampling = named.sampling(preprocessing.frames)
    source = ClipFolder(named.clips(spec.root), preprocessing, sampling, spec.limit)
    sizes, times = file_facts(source.root, source.names)
    shape = (sampling.views, sampling.frames, *preprocessing.size, 3)
    stamps = [str(source.root.resolve()), PIL.__version__, import_av().__version__, times]
    folders = [name.split("/")[0] for name in source.names]
    return OpenData(source, folders, source.classes, sizes, stamps, None, shape, made=asdict(sampling))


def count_items(spec: DataSpec) -> int:
    """Images or clips in a data set; none is read.

    Example:
        >>> count_items(DataSpec("zoo-clean", limit=24))
        24
    """
    if ClipData.parse(spec.name) is None:
        return len(open_data(spec, Preprocessing()).source)
    return len(open_clips(spec, Preprocessing(frames=1)).source)


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
