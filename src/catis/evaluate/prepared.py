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
    """Consecutive images."""

    indices: NDArray[np.int64]  # (b,) places in the data set of those that could be read
    pixels: Pixels  # (b, H, W, 3) bytes of these; (b, V, T, H, W, 3) of clips
    broken: Sequence[BrokenImage]  # those that could not be
    end: int  # place after the last one


@dataclass(frozen=True)
class Labels:
    """What is known of every image before it is read."""

    names: Sequence[str]  # paths below the root
    labels: NDArray[np.int64]  # (n,) classes of the model
    scored: tuple[int, ...] | None  # classes that may be predicted; None for all
    fingerprint: str  # hash of the data set
    views: int = 1  # inputs of the model per item: more than one for clips that are seen several times


@dataclass(frozen=True)
class PreparedImages:
    """Images in memory or mapped from the cache. Plain arrays: cheap to pickle, shareable between processes."""

    about: Labels  # names, labels, fingerprint
    pixels: Pixels  # (n, H, W, 3) bytes, (n, V, T, H, W, 3) of clips; zeros where one is broken
    broken: Mapping[int, str]  # why an image could not be read, by its index

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
