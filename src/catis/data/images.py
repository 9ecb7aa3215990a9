"""A plain folder of images as a model's input: what is read, how it is prepared, and what is refused and why."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image, UnidentifiedImageError
from timm.data.config import resolve_data_config
from timm.data.transforms_factory import create_transform
from torch import Tensor, nn

from catis.errors import CatisError

__all__ = [
    "Batch",
    "BrokenImage",
    "ImageArrays",
    "ImageFolder",
    "ImageSource",
    "NoImagesError",
    "Preprocessing",
    "batches",
    "read_image",
]

Pixels = NDArray[np.uint8]
EXTENSIONS = frozenset({".jpg", ".jpeg", ".png", ".bmp", ".webp", ".ppm", ".tif", ".tiff", ".gif"})


class NoImagesError(CatisError):
    """A folder holds no image that can be read; the message says what it does hold."""


@dataclass(frozen=True)
class BrokenImage:
    """An image that was left out, never replaced: which one, and why."""

    name: str
    reason: str


@dataclass(frozen=True)
class Preprocessing:
    """How a model wants its images: shorter side to size / crop_pct, centre crop, normalised.

    Attributes:
        size: Height and width of the input.
        crop_pct: Share of the resized image that the crop keeps.
        mean: Per channel, on a 0..1 scale.
        std: Per channel, on a 0..1 scale.
        interpolation: "bicubic", "bilinear" or another of timm's names.
    """

    size: tuple[int, int] = (224, 224)
    crop_pct: float = 0.875
    mean: tuple[float, float, float] = (0.485, 0.456, 0.406)
    std: tuple[float, float, float] = (0.229, 0.224, 0.225)
    interpolation: str = "bicubic"

    @classmethod
    def for_model(cls, model: nn.Module) -> Preprocessing:
        """What timm's configuration of the model says, at the size the model was built for.

        A model without such a configuration (from transformers, say) gets ImageNet's defaults: pass your own where its
        image processor says otherwise.

        Example:
            >>> import timm
            >>> Preprocessing.for_model(timm.create_model("deit_tiny_patch16_224")).crop_pct
            0.9
        """
        config = resolve_data_config(model=model)  # type: ignore[no-untyped-call]
        return cls(
            _input_size(model, config["input_size"]),
            config["crop_pct"],
            config["mean"],
            config["std"],
            config["interpolation"],
        )

    def pixels(self, image: Image.Image) -> Pixels:
        """Resize and crop with timm's own evaluation transform: (H, W, 3) bytes, so that corruptions come after."""
        chw: Pixels = np.asarray(self._transform()(image.convert("RGB")))
        return np.ascontiguousarray(chw.transpose(1, 2, 0))

    def normalise(self, pixels: Sequence[Pixels], device: torch.device | str = "cpu") -> Tensor:
        """(B, 3, H, W) float input of (H, W, 3) bytes."""
        stacked = torch.from_numpy(np.stack(pixels)).to(device).permute(0, 3, 1, 2).float() / 255
        mean, std = (stacked.new_tensor(values)[:, None, None] for values in (self.mean, self.std))
        return (stacked - mean) / std

    def _transform(self) -> Any:
        return create_transform(
            (3, *self.size),
            is_training=False,
            normalize=False,
            crop_pct=self.crop_pct,
            interpolation=self.interpolation,
        )


def _input_size(model: nn.Module, configured: tuple[int, int, int]) -> tuple[int, int]:
    """The size a model was built for, which may be other than its pretrained configuration's."""
    built = getattr(getattr(model, "patch_embed", None), "img_size", None)
    built = built or getattr(getattr(model, "config", None), "image_size", None) or configured[1:]
    return (built, built) if isinstance(built, int) else (int(built[0]), int(built[1]))


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
        root: The folder.
        preprocessing: How to prepare them.
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
            return BrokenImage(name, "symlink out of the folder, not followed")
        return read_image(path, self.preprocessing, name)


def read_image(path: Path, preprocessing: Preprocessing, name: str = "") -> Pixels | BrokenImage:
    """Decode, resize and crop one image file; anything wrong with it comes back as a BrokenImage."""
    name = name or str(path)
    try:
        with Image.open(path) as image:
            # Pillow only warns up to twice its limit; here the limit is one.
            if Image.MAX_IMAGE_PIXELS is not None and image.width * image.height > Image.MAX_IMAGE_PIXELS:
                return BrokenImage(name, f"refused: {image.width} x {image.height} pixels could be a decompression bomb")
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


@dataclass(frozen=True)
class Batch:
    """Consecutive images that could be read, and those that could not.

    Attributes:
        names: Of the images that could be read.
        pixels: (H, W, 3) bytes of each.
        damaged: Their corrupted versions; empty if none were asked for.
        broken: Left out of this batch.
    """

    names: tuple[str, ...]
    pixels: tuple[Pixels, ...]
    damaged: tuple[Pixels, ...]
    broken: tuple[BrokenImage, ...]


Damage = Callable[[Pixels, int], Pixels]
"""Makes the corrupted version of an image, with the random seed given."""


def batches(
    source: ImageSource, batch_size: int, workers: int = 1, damage: Damage | None = None, seed: int = 0
) -> Iterator[Batch]:
    """Read a source in order, the next batch in the background while the caller works on this one.

    Args:
        source: Where images come from.
        batch_size: Images per batch, broken ones counted.
        workers: Threads that read.
        damage: Makes corrupted versions. Its seed comes from `seed` and the image's name alone, so the result is the
            same whatever the batch size, the order or the workers.
        seed: Changes all of these.

    Example:
        >>> images = [np.zeros((8, 8, 3), np.uint8)] * 3
        >>> [len(batch.pixels) for batch in batches(ImageArrays(images), batch_size=2)]
        [2, 1]
    """
    if batch_size < 1 or workers < 1:
        raise ValueError(f"batch_size={batch_size}, workers={workers}: expected at least 1 each")
    spans = [range(start, min(start + batch_size, len(source))) for start in range(0, len(source), batch_size)]
    with ThreadPoolExecutor(workers, thread_name_prefix="catis-images") as pool:
        ahead: list[list[Future[_Read]]] = []
        try:
            for place, span in enumerate(spans):
                while len(ahead) < 2 and place + len(ahead) < len(spans):
                    ahead.append(
                        [pool.submit(_read, source, index, damage, seed) for index in spans[place + len(ahead)]]
                    )
                yield _batch([source.name(index) for index in span], [future.result() for future in ahead.pop(0)])
        finally:
            for futures in ahead:
                for future in futures:
                    future.cancel()


_Read = tuple[Pixels, Pixels | None] | BrokenImage


def _read(source: ImageSource, index: int, damage: Damage | None, seed: int) -> _Read:
    pixels = source.read(index)
    if isinstance(pixels, BrokenImage):
        return pixels
    digest = hashlib.blake2b(f"{seed}:{source.name(index)}".encode(), digest_size=4).digest()
    return pixels, None if damage is None else damage(pixels, int.from_bytes(digest, "big"))


def _batch(names: Sequence[str], read: Sequence[_Read]) -> Batch:
    good = [(name, item) for name, item in zip(names, read, strict=True) if not isinstance(item, BrokenImage)]
    return Batch(
        names=tuple(name for name, _ in good),
        pixels=tuple(clean for _, (clean, _) in good),
        damaged=tuple(damaged for _, (_, damaged) in good if damaged is not None),
        broken=tuple(item for item in read if isinstance(item, BrokenImage)),
    )
