"""The procedural image set, as a sequence and as batches."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from catis.data.corruptions import CORRUPTIONS, corrupt
from catis.zoo import weak
from catis.zoo.models import MEAN, STD
from catis.zoo.objects import CLASSES
from catis.zoo.render import paint, quantise
from catis.zoo.scene import draw_scene
from catis.zoo.streams import SPLITS, VIEWS, stream
from catis.zoo.styles import STYLES, sketch

Bytes = NDArray[np.uint8]
HARD_ATTEMPTS = 8
HARD_RANK = 3
"""A hard image is the first of 8 candidates whose true class is not among the weak classifier's first 3."""


@dataclass(frozen=True)
class ZooDataset:
    """Images made on demand: the same (view, split, seed, index) is the same image, always and everywhere.

    Labels go round: image i is of class ``i % 24``, so any n is balanced to within one image per class.

    Attributes:
        view: one of ``VIEWS``.
        split: one of ``SPLITS``.
        n: number of images.
        seed: other seeds are other images of the same kind.
        corruption: for ``corrupted``: a name of ``CORRUPTIONS``, or None to go round all 15.
        severity: for ``corrupted``: 1 to 5.
    """

    view: str
    split: str
    n: int
    seed: int
    corruption: str | None
    severity: int

    @property
    def classes(self) -> tuple[str, ...]:
        """Class names in label order."""
        return CLASSES

    def __len__(self) -> int:
        return self.n

    def __getitem__(self, index: int) -> tuple[Bytes, int]:
        """Image (96, 96, 3) and label."""
        at = index + self.n if index < 0 else index
        if not 0 <= at < self.n:
            raise IndexError(f"image {index} of a set of {self.n}: expected 0 to {self.n - 1}")
        label = at % len(CLASSES)
        return self._image(at, label), label

    def __iter__(self) -> Iterator[tuple[Bytes, int]]:
        return (self[i] for i in range(self.n))

    def _image(self, index: int, label: int) -> Bytes:
        if self.view == "hard":
            return self._hard(index, label)
        if self.view == "corrupted":
            return self._corrupted(index, label)
        rng = stream(self.view, self.split, self.seed, index)
        scene = draw_scene(rng, label)
        if self.view == "renditions":
            style = list(STYLES.values())[int(rng.integers(len(STYLES)))]
            return quantise(style(rng, scene))
        return quantise(sketch(rng, scene) if self.view == "sketch" else paint(rng, scene))

    def _hard(self, index: int, label: int) -> Bytes:
        image = np.zeros(0, dtype=np.uint8)
        for attempt in range(HARD_ATTEMPTS):
            rng = stream("hard", self.split, self.seed, index, attempt)
            image = quantise(paint(rng, draw_scene(rng, label, hard=True)))
            if weak.rank(image, label) >= HARD_RANK:
                break
        return image

    def _corrupted(self, index: int, label: int) -> Bytes:
        """The clean image of the same index, corrupted: pairs are comparable pixel by pixel."""
        rng = stream("clean", self.split, self.seed, index)
        clean = quantise(paint(rng, draw_scene(rng, label)))
        name = self.corruption or CORRUPTIONS[index // len(CLASSES) % len(CORRUPTIONS)]
        noise = int(stream("corrupted", self.split, self.seed, index).integers(2**31))
        return corrupt(clean, name, self.severity, noise)

    def batches(self, batch_size: int = 64) -> Iterator[tuple[Tensor, Tensor]]:
        """Batches in order.

        Args:
            batch_size: images per batch; the last one may be smaller.

        Yields:
            Normalised float32 images (B, 3, 96, 96) and int64 labels (B,).
        """
        if batch_size < 1:
            raise ValueError(f"batch_size {batch_size}: expected at least 1")
        for start in range(0, self.n, batch_size):
            pairs = [self[i] for i in range(start, min(start + batch_size, self.n))]
            yield normalise(np.stack([image for image, _ in pairs])), torch.tensor([label for _, label in pairs])


def normalise(images: Bytes) -> Tensor:
    """Turn bytes (B, H, W, 3) into the zoo models' input: (x / 255 - MEAN) / STD, float32, (B, 3, H, W)."""
    x = torch.from_numpy(np.ascontiguousarray(images.transpose(0, 3, 1, 2))).float()
    mean = torch.tensor(MEAN).view(1, 3, 1, 1) * 255
    std = torch.tensor(STD).view(1, 3, 1, 1) * 255
    return (x - mean) / std


def dataset(
    view: str = "clean",
    split: str = "test",
    n: int = 1000,
    seed: int = 0,
    corruption: str | None = None,
    severity: int = 3,
) -> ZooDataset:
    """Open a view of the procedural image set.

    Args:
        view: ``clean``, ``hard``, ``renditions``, ``sketch`` or ``corrupted``.
        split: ``train``, ``val`` or ``test``; splits share no image.
        n: number of images.
        seed: 0 is the set the models' card reports (and, for ``train``, the one they were trained on).
        corruption: for ``corrupted`` only: one of the 15 ImageNet-C names; None goes round all of them.
        severity: for ``corrupted`` only: 1 to 5.

    Raises:
        ValueError: an argument is not one of the above; the message says what was given and what is expected.
    """
    _one_of("view", view, VIEWS)
    _one_of("split", split, SPLITS)
    _whole("n", n, 1, 2**31)
    _whole("seed", seed, 0, 2**32 - 1)
    _whole("severity", severity, 1, 5)
    if corruption is not None:
        if view != "corrupted":
            raise ValueError(f"corruption {corruption!r} given with view {view!r}: it needs view 'corrupted'")
        _one_of("corruption", corruption, CORRUPTIONS)
    return ZooDataset(view, split, int(n), int(seed), corruption, int(severity))


def _one_of(what: str, given: object, allowed: tuple[str, ...]) -> None:
    if given not in allowed:
        raise ValueError(f"{what} {given!r}: expected one of {', '.join(allowed)}")


def _whole(what: str, given: object, low: int, high: int) -> None:
    if isinstance(given, bool) or not isinstance(given, int | np.integer) or not low <= given <= high:
        raise ValueError(f"{what} {given!r}: expected a whole number from {low} to {high}")
