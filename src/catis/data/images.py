"""A plain folder of images as a model's input: what is read, how it is prepared, and what is refused and why."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from PIL import Image, UnidentifiedImageError

from catis.data.preprocessing import Pixels, Preprocessing
from catis.errors import CatisError

EXTENSIONS = frozenset({".jpg", ".jpeg", ".png", ".bmp", ".webp", ".ppm", ".tif", ".tiff", ".gif"})


class NoImagesError(CatisError):
    """A folder holds no image that can be read; the message says what it does hold."""


@dataclass(frozen=True)
class BrokenImage:
    """An image that was left out, never replaced: which one, and why."""

    name: str
    reason: str


class ImageSource(Protocol):
    """Anything that gives (H, W, 3) bytes by index, under a name that fixes its random numbers."""

    def __len__(self) -> int:
        """Images there are."""

    def name(self, index: int) -> str:
        """A name that stays the same whatever else is there."""

    def read(self, index: int) -> Pixels | BrokenImage:
        """The image, or why there is none."""


class ImageArrays:
    """Images that are in memory already: uint8 (H, W, 3) arrays, or (array, label) pairs as data sets give them."""

    def __init__(self, images: Sequence[Any]) -> None:
        self._images = images

    def __len__(self) -> int:
        return len(self._images)

    def name(self, index: int) -> str:
        """Its index."""
        return str(index)

    def read(self, index: int) -> Pixels | BrokenImage:
        """The array."""
        item = self._images[index]
        pixels = np.asarray(item[0] if isinstance(item, tuple) else item)
        if pixels.dtype != np.uint8 or pixels.ndim != 3 or pixels.shape[2] != 3:
            return BrokenImage(self.name(index), f"{pixels.dtype} {pixels.shape}: expected uint8 (H, W, 3)")
        return pixels


class ImageFolder:
    """All images below a folder, in the order of their relative paths; sub-folders may be classes or not.

    Args:
        limit: Take only this many, spread evenly over the folder.

    Raises:
        NoImagesError: It is not a folder, or has no file with an image's extension.

    Example:
        >>> import tempfile
        >>> ImageFolder(tempfile.mkdtemp())
        Traceback (most recent call last):
        ...
        catis.data.images.NoImagesError: no images in ...
    """

    def __init__(self, root: str | Path, preprocessing: Preprocessing | None = None, limit: int | None = None) -> None:
        self.root = Path(root)
        self.preprocessing = preprocessing or Preprocessing()
        self.names = _list(self.root)
        if limit is not None and limit < 1:
            raise ValueError(f"limit={limit}: expected at least one image")
        if limit is not None and limit < len(self.names):
            self.names = [self.names[i * len(self.names) // limit] for i in range(limit)]

    def __len__(self) -> int:
        return len(self.names)

    def name(self, index: int) -> str:
        """Its path below the root."""
        return self.names[index]

    def read(self, index: int) -> Pixels | BrokenImage:
        """Decode, resize and crop one image; anything wrong with the file comes back as a BrokenImage."""
        name = self.names[index]
        path = self.root / name
        if not path.resolve().is_relative_to(self.root.resolve()):
            return BrokenImage(name, "symlink out of the folder, not followed: copy the file")
        return read_image(path, self.preprocessing, name)


def read_image(path: Path, preprocessing: Preprocessing, name: str = "") -> Pixels | BrokenImage:
    """Decode, resize and crop one image file; anything wrong with it comes back as a BrokenImage."""
    name = name or str(path)
    try:
        with Image.open(path) as image:
            # Pillow only warns up to twice its limit; here the limit is one.
            if Image.MAX_IMAGE_PIXELS is not None and image.width * image.height > Image.MAX_IMAGE_PIXELS:
                return BrokenImage(name, f"refused: {image.width} x {image.height} pixels, maybe a decompression bomb")
            return preprocessing.pixels(image)
    except (OSError, UnidentifiedImageError, SyntaxError, ValueError, struct.error, EOFError) as error:
        return BrokenImage(name, f"{type(error).__name__}: {error}".replace(str(path), name))
    except Image.DecompressionBombError as error:
        return BrokenImage(name, f"refused: {error}")


def _list(root: Path) -> list[str]:
    if not root.is_dir():
        raise NoImagesError(f"no images in {root}: it is {'a file' if root.exists() else 'not there'}; pass a folder")
    files = [path for path in root.rglob("*") if path.is_file()]
    names = sorted(path.relative_to(root).as_posix() for path in files if path.suffix.lower() in EXTENSIONS)
    if not names:
        raise NoImagesError(
            f"no images in {root}: {len(files)} files, none ending in {', '.join(sorted(EXTENSIONS))}; pass another one"
        )
    return names
