"""The user's images, split once: some to calibrate int8 on, others, never seen by it, to judge it by."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from catis.data.batches import batches
from catis.data.images import BrokenImage, ImageFolder, NoImagesError
from catis.data.preprocessing import Pixels, Preprocessing

MOST_CALIBRATION = 128
"""Images that ranges are taken from; more of them change little and take long."""


@dataclass(frozen=True)
class Split:
    """Prepared images, (1, 3, H, W) each, to calibrate on and to judge by; and files that could not be read."""

    calibration: list[NDArray[np.float32]]
    held_out: list[NDArray[np.float32]]
    broken: tuple[BrokenImage, ...] = ()


def split_images(folder: ImageFolder, workers: int = 2, progress: Callable[[int, int], None] | None = None) -> Split:
    """Read a folder and split it by a hash of what each image shows, so that copies of an image are on one side.

    Args:
        folder: The images, with the model's preprocessing.
        workers: Threads that read.
        progress: Told images read and images there are.

    Raises:
        NoImagesError: Fewer than one image for either side.
    """
    calibration: list[NDArray[np.float32]] = []
    held_out: list[NDArray[np.float32]] = []
    broken: list[BrokenImage] = []
    shown: set[bytes] = set()
    done = 0
    for batch in batches(folder, 16, workers):
        for pixels in batch.pixels:
            content = hashlib.blake2b(np.ascontiguousarray(pixels).tobytes(), digest_size=16).digest()
            if content in shown or (content[0] & 1 and len(calibration) < MOST_CALIBRATION):
                shown.add(content)
                calibration.append(_prepared(pixels, folder.preprocessing))
            else:
                held_out.append(_prepared(pixels, folder.preprocessing))
        broken += batch.broken
        done += len(batch.pixels) + len(batch.broken)
        if progress is not None:
            progress(done, len(folder))
    if not calibration or not held_out:
        raise NoImagesError(
            f"{folder.root} has {done - len(broken)} images that can be read, {len(calibration)} to calibrate on and "
            f"{len(held_out)} to judge by: expected at least one of each, better some hundreds; give a larger folder"
        )
    return Split(calibration, held_out, tuple(broken))


def _prepared(pixels: Pixels, preprocessing: Preprocessing) -> NDArray[np.float32]:
    prepared: NDArray[np.float32] = preprocessing.normalise([pixels]).numpy()
    return prepared
