"""What a labelled data set offers a run, and the form of it that lies ready in memory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from catis.data.images import BrokenImage
from catis.data.preprocessing import Pixels


class ImageBatch(NamedTuple):
    """Consecutive images.

    Attributes:
        indices: (b,) places in the data set of those that could be read.
        pixels: (b, H, W, 3) bytes of these; (b, V, T, H, W, 3) of clips.
        broken: Those that could not be.
        end: Place after the last one.
    """

    indices: NDArray[np.int64]
    pixels: Pixels
    broken: Sequence[BrokenImage]
    end: int


@dataclass(frozen=True)
class Labels:
    """What is known of every image before it is read.

    Attributes:
        names: Paths below the root.
        labels: (n,) classes of the model.
        scored: Classes that may be predicted; None for all.
        fingerprint: Hash of the data set.
        views: Inputs of the model per item: more than one for clips that are seen several times.
    """

    names: Sequence[str]
    labels: NDArray[np.int64]
    scored: tuple[int, ...] | None
    fingerprint: str
    views: int = 1


@dataclass(frozen=True)
class PreparedImages:
    """Images in memory or mapped from the cache. Plain arrays: cheap to pickle, shareable between processes.

    Attributes:
        about: Names, labels, fingerprint.
        pixels: (n, H, W, 3) bytes, (n, V, T, H, W, 3) of clips; zeros where one is broken.
        broken: Why an image could not be read, by its index.
    """

    about: Labels
    pixels: Pixels
    broken: Mapping[int, str]

    def batches(self, batch_size: int) -> Iterator[ImageBatch]:
        """All images in order; a broken one takes up its place in its batch."""
        total = len(self.about.names)
        for start in range(0, total, batch_size):
            end = min(start + batch_size, total)
            bad = [index for index in range(start, end) if index in self.broken]
            good = np.setdiff1d(np.arange(start, end), bad)
            pixels = self.pixels[good] if bad else self.pixels[start:end]
            yield ImageBatch(
                good, pixels, [BrokenImage(self.about.names[index], self.broken[index]) for index in bad], end
            )
