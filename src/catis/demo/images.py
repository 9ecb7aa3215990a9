"""The demo's images: made once, used by every model and method."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from catis import zoo
from catis.demo.settings import SHIFTS, Settings
from catis.evaluate.prepared import Labels, PreparedImages


def make_views(settings: Settings) -> dict[str, PreparedImages]:
    """The clean view, and the shifted one in equal parts of hard, renditions and sketch.

    Example:
        >>> views = make_views(Settings(clean=2, shifted=3))
        >>> {name: len(view.pixels) for name, view in views.items()}
        {'clean': 2, 'shifted': 3}
    """
    each = max(settings.shifted // len(SHIFTS), 1)
    return {
        "clean": _view([("clean", settings.clean)], settings.seed),
        "shifted": _view([(name, each) for name in SHIFTS], settings.seed),
    }


def in_batches(view: PreparedImages, size: int) -> list[PreparedImages]:
    """The images of a view in parts, each a data set of its own."""
    names, labels = view.about.names, view.about.labels
    parts = [slice(start, start + size) for start in range(0, len(names), size)]
    return [PreparedImages(replace(view.about, names=names[p], labels=labels[p]), view.pixels[p], {}) for p in parts]


def _view(parts: list[tuple[str, int]], seed: int) -> PreparedImages:
    pairs = [pair for name, n in parts for pair in zoo.dataset(name, split="test", n=n, seed=seed)]
    names, labels = [str(number) for number in range(len(pairs))], np.array([label for _, label in pairs], np.int64)
    return PreparedImages(Labels(names, labels, None, ""), np.stack([image for image, _ in pairs]), {})
