"""One random stream per image, keyed by what the image is, never by when or where it is made."""

from __future__ import annotations

import numpy as np

SPLITS = ("train", "val", "test")
VIEWS = ("clean", "hard", "renditions", "sketch", "corrupted")


def stream(view: str, split: str, seed: int, index: int, attempt: int = 0) -> np.random.Generator:
    """Generator of one image.

    Args:
        view: one of ``VIEWS``.
        split: one of ``SPLITS``.
        seed: data-set seed.
        index: position in the data set.
        attempt: candidate number, for views that reject candidates.
    """
    key = [VIEWS.index(view), SPLITS.index(split), seed, index, attempt]
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence(key)))
