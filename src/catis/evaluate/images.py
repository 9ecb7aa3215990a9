"""The images of a data set, prepared for a model: from the cache, or decoded in the background while it computes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from catis.data.batches import Batch, batches
from catis.data.preprocessing import Preprocessing
from catis.data.video_lists import ClipData
from catis.evaluate.cache import CacheWriter, ImageCache
from catis.evaluate.classes import map_classes
from catis.evaluate.prepared import ImageBatch, Labels, PreparedImages
from catis.evaluate.sources import OpenData, open_clips, open_data
from catis.runs.record import data_fingerprint, digest
from catis.runs.spec import DataSpec


@dataclass
class StreamedImages:
    """Images decoded by threads, the next batch while this one is computed on; a whole pass fills the cache."""

    about: Labels  # names, labels, fingerprint
    data: OpenData  # where they come from
    seed: int = 0  # of corruptions
    workers: int = 1  # threads that decode
    cache: ImageCache | None = None  # where to keep them, None for nowhere
    key: str = ""  # their name there
    notes: list[str] = field(default_factory=list)  # what the user should know, such as a cache that is full

    def batches(self, batch_size: int) -> Iterator[ImageBatch]:
        """All images in order."""
        ready = self._cached()
        return self._decode(batch_size) if ready is None else ready.batches(batch_size)

    def prepared(self, batch_size: int = 64) -> PreparedImages:
        """All of them at once: mapped from the cache, or in memory if there is none."""
        ready = self._cached()
        if ready is not None:
            return ready
        pixels = np.zeros((len(self.about.names), *self.data.shape), np.uint8)
        broken: dict[str, str] = {}
        for batch in self._decode(batch_size):
            pixels[batch.indices] = batch.pixels
            broken |= {item.name: item.reason for item in batch.broken}
        places = {index: broken[name] for index, name in enumerate(self.about.names) if name in broken}
        return self._cached() or PreparedImages(self.about, pixels, places)

    def _cached(self) -> PreparedImages | None:
        kept = None if self.cache is None else self.cache.find(self.key)
        if kept is None or kept.pixels.shape != (len(self.about.names), *self.data.shape):
            return None
        return PreparedImages(self.about, kept.pixels, kept.broken)

    def _decode(self, batch_size: int) -> Iterator[ImageBatch]:
        writer, start = self._writer(), 0
        try:
            for read in batches(self.data.source, batch_size, self.workers, self.data.damage, self.seed):
                batch = self._place(read, start)
                writer = self._keep(writer, batch, start)
                yield batch
                start = batch.end
            if writer is not None:
                writer.finish()
        finally:
            if writer is not None:
                writer.discard()

    def _place(self, read: Batch, start: int) -> ImageBatch:
        """A batch of the reader with its place in the data set."""
        pixels = read.pixels if self.data.damage is None else read.damaged
        end = start + len(pixels) + len(read.broken)
        good = set(read.names)
        indices = [index for index in range(start, end) if self.about.names[index] in good]
        stacked = np.stack(pixels) if pixels else np.zeros((0, *self.data.shape), np.uint8)
        return ImageBatch(np.array(indices, dtype=np.int64), stacked, read.broken, end)

    def _writer(self) -> CacheWriter | None:
        if self.cache is None:
            return None
        try:
            return self.cache.write(self.key, (len(self.about.names), *self.data.shape))
        except OSError as error:
            self._uncached(error)
            return None

    def _keep(self, writer: CacheWriter | None, batch: ImageBatch, start: int) -> CacheWriter | None:
        if writer is None:
            return None
        pixels_of = dict(zip(batch.indices.tolist(), batch.pixels, strict=True))
        reasons = {item.name: item.reason for item in batch.broken}
        try:
            for index in range(start, batch.end):
                writer.add(pixels_of.get(index), reasons.get(self.about.names[index], ""))
        except OSError as error:
            writer.discard()
            self._uncached(error)
            return None
        return writer

    def _uncached(self, error: OSError) -> None:
        """The run goes on without its cache: a full disk costs time, not results."""
        assert self.cache is not None
        self.notes.append(f"images are not kept in {self.cache.folder}: {error.strerror or error}")
        self.cache = None


Images = StreamedImages | PreparedImages
"""A labelled data set, prepared for a model. Batches are cut in the same places wherever images come from."""


def open_images(
    spec: DataSpec,
    preprocessing: Preprocessing,
    num_classes: int,
    *,
    class_names: Sequence[str] = (),
    workers: int = 1,
    cache: ImageCache | None = None,
) -> StreamedImages:
    """Open a data set for a model of so many classes, with names or without; nothing is decoded yet.

    Example:
        >>> images = open_images(DataSpec("zoo-clean", limit=24), Preprocessing((96, 96), 1.0), 24)
        >>> [len(batch.indices) for batch in images.batches(16)]
        [16, 8]
    """
    clips = preprocessing.frames is not None or ClipData.parse(spec.name) is not None
    data = open_clips(spec, preprocessing) if clips else open_data(spec, preprocessing)
    known = map_classes(spec.name, data.classes, num_classes, spec.class_map, class_names)
    names = [data.source.name(index) for index in range(len(data.source))]
    labels = np.array([known.index[folder] for folder in data.folders], dtype=np.int64)
    damage = [spec.corruption, spec.severity, spec.seed] if data.damage is not None else None
    items = zip(names, data.sizes, labels.tolist(), strict=True)
    fingerprint = data_fingerprint(items, damage=damage, made=data.made)
    about = Labels(names, labels, known.scored, fingerprint, views=data.shape[0] if clips else 1)
    geometry = [preprocessing.size, preprocessing.crop_pct, preprocessing.interpolation, preprocessing.crop_mode]
    key = digest([spec.title, names, list(data.sizes), data.stamps, data.made, geometry, damage], size=16)
    images = StreamedImages(about, data, spec.seed, workers, cache, key)
    if cache is not None and not cache.fits((len(names), *data.shape)):
        images.cache = None
        images.notes.append(f"{spec.title} is larger than the cache may be ({cache.limit:g} GB): decoded every time")
    return images
