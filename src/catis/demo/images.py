"""The demo's images: made once, used by every model and method."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from catis import zoo
from catis.demo.settings import SHIFTS, Settings

__all__ = ["View", "make_views"]


@dataclass(frozen=True)
class View:
    """Images with their classes.

    Attributes:
        pixels: (n, 96, 96, 3) bytes.
        images: (n, 3, 96, 96) the same, prepared for the models.
        labels: (n,) classes.
    """

    pixels: NDArray[np.uint8]
    images: Tensor
    labels: Tensor

    def __len__(self) -> int:
        return len(self.labels)


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
    pixels = np.stack([image for image, _ in pairs])
    return View(pixels, zoo.normalise(pixels), torch.tensor([label for _, label in pairs]))
