"""Batches of prepared images to calibrate on: clean ones, and flipped, corrupted ones so that it holds under shift."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from catis.data.batches import batches
from catis.data.images import BrokenImage, ImageArrays, ImageFolder
from catis.data.preprocessing import Preprocessing
from catis.errors import CatisError

ImagesLike = str | Path | Tensor | Iterable[Any]
"""A folder, prepared images as one tensor or in batches (as a DataLoader gives them), or uint8 (H, W, 3) arrays."""
FEWEST = 8
"""Images below which nothing can be fitted and checked."""
HELD_OUT = 4  # every fourth image
CORRUPTED = 2  # every second image is seen corrupted as well
NOISE, CONTRAST, BLUR = 0.18, 0.3, 2.0
"""Severity 3 of ImageNet-C's Gaussian noise and contrast, and a blur of 2 pixels."""


class View(NamedTuple):
    """A batch of images as the reduced model sees them."""

    images: Tensor  # (B, 3, H, W) prepared images
    held_out: bool  # whether they choose and accept, instead of being fitted
    # Images of the batch before that these are, corrupted: there the vanilla model has seen them whole. None if they
    # are not corrupted.
    copies: slice | None = None


def prepared_images(
    model: nn.Module,
    images: ImagesLike,
    preprocessing: Preprocessing,
    limit: int | None = None,
    said: list[str] | None = None,
) -> Tensor:
    """(n, 3, H, W) float32 images as the model wants them, on the CPU.

    Args:
        model: That they are for.
        images: In any form.
        preprocessing: How to prepare a folder or arrays.
        limit: Use this many.
        said: Gets a sentence if some images of a folder could not be read and were left out.

    Raises:
        CatisError: There are none, or too few.
        ValueError: They are neither images nor prepared tensors.
    """
    if isinstance(images, (str, Path)):
        made = _from_folder(images, preprocessing, limit, [] if said is None else said)
    elif isinstance(images, Tensor):
        made = images
    else:
        made = _from_batches(images, preprocessing, limit)
    if made.ndim not in (4, 5) or not made.is_floating_point():
        expected = "expected prepared float images (n, 3, H, W), uint8 arrays (H, W, 3), or a folder"
        raise ValueError(f"images: {made.dtype} {tuple(made.shape)}: {expected}")
    made = made[:limit].detach().float().cpu()
    if len(made) < FEWEST:
        raise CatisError(f"{len(made)} images: expected at least {FEWEST}, some to fit and some to check on")
    if not bool(made.isfinite().all()):
        raise ValueError("images: some are not finite (NaN or infinite)")
    return made


def _from_folder(folder: str | Path, preprocessing: Preprocessing, limit: int | None, said: list[str]) -> Tensor:
    source = ImageFolder(folder, preprocessing, limit)
    read: list[Tensor] = []
    broken: list[BrokenImage] = []
    for batch in batches(source, 32, workers=2):
        read += [preprocessing.normalise(batch.pixels)] if batch.pixels else []
        broken += batch.broken
    first = f"the first: {broken[0].name}: {broken[0].reason}" if broken else ""
    if not read:
        raise CatisError(f"none of {len(source)} images in {folder} could be read; {first}")
    said += [f"left out {len(broken)} of {len(source)} images in {folder}, which cannot be read; {first}"] * bool(first)
    return torch.cat(read)


def _from_batches(images: Iterable[Any], preprocessing: Preprocessing, limit: int | None) -> Tensor:
    read: list[Tensor] = []
    for item in images:
        first = item[0] if isinstance(item, (tuple, list)) else item
        if isinstance(first, np.ndarray) and first.dtype == np.uint8:
            pixels = ImageArrays([first]).read(0)
            if not isinstance(pixels, np.ndarray):
                raise ValueError(f"image {len(read)}: {pixels.reason}")
            first = preprocessing.normalise([pixels])
        if not isinstance(first, Tensor):
            raise ValueError(f"images: found a {type(first).__name__}; expected tensors, uint8 arrays, or a folder")
        read.append(first if first.ndim in (4, 5) else first[None])
        if limit is not None and sum(map(len, read)) >= limit:
            break
    if not read:
        raise CatisError(f"no images: expected at least {FEWEST}")
    return torch.cat(read)


def views(
    images: Tensor,
    preprocessing: Preprocessing,
    batch_size: int,
    seed: int = 0,
    held_out: Tensor | None = None,
    rounds: int = 1,
    thorough: bool = False,
) -> Iterator[View]:
    """All images clean, and some of them corrupted as well; all views of an image on the same side.

    Corrupted copies follow the batch that they are of, so that the vanilla model need not see it again.

    Args:
        images: (n, 3, H, W) prepared images.
        preprocessing: How they were prepared.
        batch_size: Images per batch.
        seed: Of what is random; the same one gives the same views.
        held_out: Images of their own that are held out; by default every fourth of `images`.
        rounds: How often the images that are fitted are seen, from the second time on as crops of them.
        thorough: Whether images held out are also seen flipped, and all of them corrupted: answers move by chance, so
            that twice the views decide better, and take longer.

    Example:
        >>> made = list(views(torch.zeros(8, 3, 16, 16), Preprocessing(), batch_size=4))
        >>> [(len(view.images), view.held_out) for view in made]
        [(4, False), (2, False), (2, False), (1, False), (2, True), (1, True)]
    """
    if held_out is None:
        checks = torch.arange(len(images)) % HELD_OUT == HELD_OUT - 1
        images, held_out = images[~checks], images[checks]
    crops = torch.Generator().manual_seed(seed)
    for turn in range(rounds):  # others are corrupted, by other noise, every time
        own = _cropped(images, crops) if turn else images
        yield from _batches(own, preprocessing, batch_size, seed, turn, held_out=False)
    for turn in range(1 + thorough):
        own = held_out.flip(-1) if turn else held_out
        yield from _batches(own, preprocessing, batch_size, seed, turn, held_out=True)


def _batches(
    images: Tensor, preprocessing: Preprocessing, batch_size: int, seed: int, turn: int, held_out: bool
) -> Iterator[View]:
    """Batches of images, each followed by some of its own, corrupted."""
    noise, start = torch.Generator().manual_seed(seed + turn), turn % CORRUPTED
    copies = slice(start, None, CORRUPTED)
    for batch in torch.split(images, batch_size):
        yield View(batch, held_out)
        if len(batch) > start:
            yield View(_damaged(batch[copies], preprocessing, noise), held_out, copies)


def both_views(
    images: Tensor, preprocessing: Preprocessing, seed: int = 0
) -> tuple[tuple[Tensor, Tensor], tuple[Tensor, Tensor]]:
    """Images as they are, and every second one flipped and corrupted; of each, before and after corruption."""
    flipped = images[::CORRUPTED].flip(-1)
    return (images, images), (flipped, _damaged(flipped, preprocessing, torch.Generator().manual_seed(seed)))


def _cropped(images: Tensor, generator: torch.Generator) -> Tensor:
    """A random part of each image, at least half of a side, at the size of the whole; every second one flipped."""
    count, side = len(images), torch.rand(len(images), generator=generator) * 0.5 + 0.5
    place = (torch.rand(count, 2, generator=generator) * 2 - 1) * (1 - side)[:, None]
    turned = torch.where(torch.arange(count) % 2 == 0, 1.0, -1.0)
    grid = torch.zeros(count, 2, 3)
    grid[:, 0, 0], grid[:, 1, 1], grid[:, :, 2] = side * turned, side, place
    return F.grid_sample(
        images,
        F.affine_grid(grid, list(images.shape), align_corners=False),
        align_corners=False,
        padding_mode="reflection",
    )


def _damaged(images: Tensor, preprocessing: Preprocessing, generator: torch.Generator) -> Tensor:
    """Noise, blur and low contrast in turn; on normalised images, where all three are linear."""
    damaged = images.clone()
    std = images.new_tensor(preprocessing.std)[:, None, None]
    noise = torch.randn(images[::3].shape, generator=generator)
    damaged[::3] += noise * (NOISE / std)
    damaged[1::3] = _blurred(images[1::3])
    mean = images[2::3].mean((-2, -1), keepdim=True)
    damaged[2::3] = mean + CONTRAST * (images[2::3] - mean)
    return damaged


def _blurred(images: Tensor) -> Tensor:
    reach = int(3 * BLUR)
    line = torch.exp(-(torch.arange(-reach, reach + 1.0) ** 2) / (2 * BLUR**2))
    line = line / line.sum()
    flat = images.reshape(-1, 1, *images.shape[-2:])
    flat = F.pad(flat, (reach, reach, reach, reach), mode="replicate")
    return F.conv2d(F.conv2d(flat, line[None, None, None, :]), line[None, None, :, None]).reshape(images.shape)
