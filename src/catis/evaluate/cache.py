"""Prepared images on disk, so that only the first pass decodes them; bounded, and safe to delete at any time."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np

from catis.data.preprocessing import Pixels
from catis.files import begin, commit, remove_leftovers, write_whole

GIGABYTE = 10**9


class CachedPixels(NamedTuple):
    """(n, H, W, 3) bytes mapped from the disk, zeros where an image is broken; and why it is, by its index."""

    pixels: Pixels
    broken: Mapping[int, str]


def default_cache() -> Path:
    """CATIS_CACHE if it is set, else the user's cache folder.

    Example:
        >>> import os
        >>> os.environ["CATIS_CACHE"] = "/scratch/catis"
        >>> str(default_cache())
        '/scratch/catis'
        >>> del os.environ["CATIS_CACHE"]
    """
    if "CATIS_CACHE" in os.environ:
        return Path(os.environ["CATIS_CACHE"])
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "catis"


class ImageCache:
    """Files KEY.npy with pixels and KEY.json with what could not be read; a set is there once its JSON file is.

    They take at most `limit` gigabytes; those unused for longest go first.
    """

    def __init__(self, folder: Path, limit: float = 20.0) -> None:
        self.folder, self.limit = folder, limit

    def find(self, key: str) -> CachedPixels | None:
        """A data set, if it is there and whole."""
        note = self.folder / f"{key}.json"
        try:
            broken = json.loads(note.read_text(encoding="utf-8"))["broken"]
            pixels = np.load(self.folder / f"{key}.npy", mmap_mode="r", allow_pickle=False)
            os.utime(note)
        except (OSError, ValueError, KeyError, TypeError):  # not there, or damaged: prepared again
            return None
        return CachedPixels(pixels, {int(index): reason for index, reason in broken.items()})

    def fits(self, shape: tuple[int, ...]) -> bool:
        """Whether a set of so many images may be kept at all."""
        return math.prod(shape) <= self.limit * GIGABYTE

    def write(self, key: str, shape: tuple[int, ...]) -> CacheWriter:
        """A writer that takes the images in order; the set is there once it has been finished."""
        self.folder.mkdir(parents=True, exist_ok=True)
        remove_leftovers(self.folder)
        return CacheWriter(self, key, shape)

    def bytes_used(self) -> int:
        """What all of it takes on the disk."""
        return sum(path.stat().st_size for path in self.folder.glob("*.npy"))

    def shrink(self, newest: str) -> None:
        """Delete what was unused for longest until the limit is kept."""
        notes = sorted(self.folder.glob("*.json"), key=lambda path: path.stat().st_mtime)
        for note in notes:
            if self.bytes_used() <= self.limit * GIGABYTE:
                return
            if note.stem != newest:
                note.unlink(missing_ok=True)  # first, so that nobody takes it for whole
                note.with_suffix(".npy").unlink(missing_ok=True)


class CacheWriter:
    """Appends images to a .npy file; written, not mapped, so that a full disk is an error and not a crash."""

    def __init__(self, cache: ImageCache, key: str, shape: tuple[int, ...]) -> None:
        self._cache, self._key, self._shape = cache, key, shape
        self._broken: dict[int, str] = {}
        self._next = 0
        self._partial = begin(cache.folder / f"{key}.npy")
        self._file = self._partial.open("wb")
        header = {"descr": "|u1", "fortran_order": False, "shape": shape}
        np.lib.format.write_array_header_1_0(self._file, header)

    def add(self, pixels: Pixels | None, reason: str = "") -> None:
        """The next image, or why there is none."""
        if pixels is None:
            self._broken[self._next] = reason
            pixels = np.zeros(self._shape[1:], np.uint8)
        self._file.write(np.ascontiguousarray(pixels).data)
        self._next += 1

    def finish(self) -> None:
        """Make the set known, unless an image is missing."""
        self._file.close()
        if self._next == self._shape[0]:
            commit(self._partial, self._cache.folder / f"{self._key}.npy")
            note = json.dumps({"broken": self._broken, "shape": self._shape})
            write_whole(self._cache.folder / f"{self._key}.json", note.encode())
            self._cache.shrink(self._key)

    def discard(self) -> None:
        """Leave nothing behind; after `finish` there is nothing to leave."""
        self._file.close()
        self._partial.unlink(missing_ok=True)
