"""The demo's images: made once, used by every model and method."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from catis import zoo
from catis.demo.settings import SHIFTS, Settings
from catis.evaluate.prepared import Labels, PreparedImages


@dataclass(frozen=True)
class View:
    """(n, 96, 96, 3) bytes of images, with their (n,) classes."""

    pixels: NDArray[np.uint8]
    labels: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.labels)

    def batches(self, size: int) -> list[PreparedImages]:
        """The images in parts, as `catis.evaluate` takes them."""
        parts = [slice(start, start + size) for start in range(0, len(self), size)]
        names = [str(number) for number in range(len(self))]
        return [PreparedImages(Labels(names[p], self.labels[p], None, ""), self.pixels[p], {}) for p in parts]


def make_views(settings: Settings) -> dict[str, View]:
    """The clean view, and the shifted one in equal parts of hard, renditions and sketch.

    Example:
        >>> views = make_views(Settings(clean=2, shifted=3))
        >>> {name: len(view) for name, view in views.items()}
        {'clean': 2, 'shifted': 3}
    """
    each = max(settings.shifted // len(SHIFTS), 1)
    return {
        "clean": _view([("clean", settings.clean)], settings.seed),
        "shifted": _view([(name, each) for name in SHIFTS], settings.seed),
    }


def _view(parts: list[tuple[str, int]], seed: int) -> View:
    pairs = [pair for name, n in parts for pair in zoo.dataset(name, split="test", n=n, seed=seed)]
    return View(np.stack([image for image, _ in pairs]), np.array([label for _, label in pairs], np.int64))
