"""Reads images in batches, in the background, with corrupted versions whose noise depends on the image's name alone."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

from catis.data.images import BrokenImage, ImageSource
from catis.data.preprocessing import Pixels


@dataclass(frozen=True)
class Batch:
    """Consecutive images that could be read, and those that could not."""

    names: tuple[str, ...]  # of the images that could be read
    pixels: tuple[Pixels, ...]  # (H, W, 3) bytes of each
    damaged: tuple[Pixels, ...]  # their corrupted versions; empty if none were asked for
    broken: tuple[BrokenImage, ...]  # left out of this batch


Damage = Callable[..., Pixels]
"""(image, seed=) -> its corrupted version, such as `corrupt` with a name and a severity."""


def batches(
    source: ImageSource, batch_size: int, workers: int = 1, damage: Damage | None = None, seed: int = 0
) -> Iterator[Batch]:
    """Read a source in order, the next batch in the background while the caller works on this one.

    Args:
        batch_size: Images per batch, broken ones counted.
        damage: Makes corrupted versions. Its seed comes from `seed` and the image's name alone, so the result is the
            same whatever the batch size, the order or the workers.
        seed: Changes all of these.

    Example:
        >>> import numpy as np
        >>> from catis.data.images import ImageArrays
        >>> images = [np.zeros((8, 8, 3), np.uint8)] * 3
        >>> [len(batch.pixels) for batch in batches(ImageArrays(images), batch_size=2)]
        [2, 1]
    """
    if batch_size < 1 or workers < 1:
        raise ValueError(f"batch_size={batch_size}, workers={workers}: expected at least 1 each")
    spans = [range(start, min(start + batch_size, len(source))) for start in range(0, len(source), batch_size)]
    with ThreadPoolExecutor(workers, thread_name_prefix="catis-images") as pool:
        ahead: list[list[Future[_Read]]] = []
        try:
            for place, span in enumerate(spans):
                while len(ahead) < 2 and place + len(ahead) < len(spans):
                    ahead.append(
                        [pool.submit(_read, source, index, damage, seed) for index in spans[place + len(ahead)]]
                    )
                yield _batch([source.name(index) for index in span], [future.result() for future in ahead.pop(0)])
        finally:
            for futures in ahead:
                for future in futures:
                    future.cancel()


_Read = tuple[Pixels, Pixels | None] | BrokenImage


def _read(source: ImageSource, index: int, damage: Damage | None, seed: int) -> _Read:
    pixels = source.read(index)
    if isinstance(pixels, BrokenImage):
        return pixels
    digest = hashlib.blake2b(f"{seed}:{source.name(index)}".encode(), digest_size=4).digest()
    return pixels, None if damage is None else damage(pixels, seed=int.from_bytes(digest, "big"))


def _batch(names: Sequence[str], read: Sequence[_Read]) -> Batch:
    good = [(name, item) for name, item in zip(names, read, strict=True) if not isinstance(item, BrokenImage)]
    return Batch(
        names=tuple(name for name, _ in good),
        pixels=tuple(clean for _, (clean, _) in good),
        damaged=tuple(damaged for _, (_, damaged) in good if damaged is not None),
        broken=tuple(item for item in read if isinstance(item, BrokenImage)),
    )
