"""What a training step sees: which images, how they are varied, and what is known about each patch."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from catis.zoo import normalise
from catis.zoo.objects import CLASSES
from catis.zoo.scene import SIZE

Images = NDArray[np.uint8]


class Batch(NamedTuple):
    """Normalised images, labels, and labels per patch if silhouettes were given."""

    images: Tensor
    labels: Tensor
    patches: Tensor | None


def read_images(path: Path, channels: int = 3) -> Images:
    """Whole pre-rendered file, in memory."""
    return np.fromfile(path, dtype=np.uint8).reshape(-1, SIZE, SIZE, channels)


def shift_and_flip(images: Images, rng: np.random.Generator) -> Images:
    """Mirror half of them, move all by up to 8 pixels (border reflected)."""
    padded = np.pad(images, ((0, 0), (8, 8), (8, 8), (0, 0)), mode="reflect")
    out = np.empty_like(images)
    for i, (dy, dx, flip) in enumerate(rng.integers((0, 0, 0), (17, 17, 2), size=(len(images), 3))):
        crop = padded[i, dy : dy + SIZE, dx : dx + SIZE]
        out[i] = crop[:, ::-1] if flip else crop
    return out


def recolour(x: Tensor, rng: np.random.Generator) -> Tensor:
    """Contrast and brightness per channel."""
    n = len(x)
    gain = torch.from_numpy(rng.uniform(0.7, 1.3, (n, 3, 1, 1)).astype(np.float32))
    shift = torch.from_numpy(rng.uniform(-0.3, 0.3, (n, 3, 1, 1)).astype(np.float32))
    return x * gain + shift


def patch_labels(masks: Images, labels: Tensor) -> Tensor:
    """Per patch: the image's class where the object covers it, 24 where it does not, -100 in between."""
    cover = torch.from_numpy(masks).float().unflatten(1, (-1, 8)).unflatten(3, (-1, 8)).mean((2, 4)).flatten(1) / 255
    background = torch.full_like(cover, len(CLASSES), dtype=torch.long)
    on = torch.where(cover > 0.3, labels[:, None], -100)
    return torch.where(cover < 0.03, background, on)


def batch_ids(step: int, batch: int, total: int, seed: int) -> NDArray[np.int64]:
    """Images of a step: epochs are permutations, so a resumed run sees what an unbroken one would."""
    per_epoch = total // batch
    epoch, at = divmod(step, per_epoch)
    order = np.random.default_rng([seed, epoch]).permutation(total)
    return np.sort(order[at * batch : (at + 1) * batch])


def make_batch(images: Images, masks: Images | None, step: int, size: int, seed: int) -> Batch:
    """The batch of a step, the same whenever it is asked for."""
    ids = batch_ids(step, size, len(images), seed)
    rng = np.random.default_rng([seed, 1, step])
    labels = torch.from_numpy(ids % len(CLASSES))
    picked = images[ids] if masks is None else np.concatenate([images[ids], masks[ids]], axis=3)
    picked = shift_and_flip(picked, rng)
    x = recolour(normalise(picked[..., :3]), rng)
    return Batch(x, labels, None if masks is None else patch_labels(picked[..., 3], labels))
