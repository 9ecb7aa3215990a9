"""Prepared images: the same from the cache as from the files, and a cache that cannot lie, grow or get in the way."""

import errno
import os

import numpy as np
import pytest

from catis.data.images import ImageFolder
from catis.data.preprocessing import Preprocessing
from catis.evaluate import ImageCache, open_images
from catis.evaluate.cache import CacheWriter
from catis.runs import DataSpec
from tests.evaluate.folders import break_images, write_images

SMALL = Preprocessing((32, 32), 0.9)


@pytest.fixture
def root(tmp_path):
    return write_images(tmp_path / "set", ["a", "b", "c"], each=3)


@pytest.fixture
def cache(tmp_path):
    return ImageCache(tmp_path / "cache")


def opened(root, cache=None, **settings):
    spec = DataSpec("pets", str(root), **settings)
    return open_images(spec, SMALL, 3, cache=cache)


def everything(images, batch_size=4):
    batches = list(images.batches(batch_size))
    return (
        [batch.indices.tolist() for batch in batches],
        np.concatenate([batch.pixels for batch in batches]),
        [(item.name, item.reason) for batch in batches for item in batch.broken],
        [batch.end for batch in batches],
    )


def assert_same(one, other):
    assert one[0] == other[0]
    assert np.array_equal(one[1], other[1])
    assert one[2:] == other[2:]


@pytest.fixture
def no_reading(monkeypatch):
    def forbid():
        monkeypatch.setattr(ImageFolder, "read", lambda self, index: pytest.fail("an image was decoded again"))

    return forbid


@pytest.mark.parametrize("batch_size", [1, 4, 100])
def test_cached_images_are_those_of_the_files_broken_ones_too(root, cache, tmp_path, no_reading, batch_size):
    broken = break_images(root, "b", tmp_path / "elsewhere")
    plain = everything(opened(root), batch_size)
    assert_same(everything(opened(root, cache), batch_size), plain)
    assert {name for name, _ in plain[2]} == set(broken) - {"b/bomb.png"}
    no_reading()
    assert_same(everything(opened(root, cache), batch_size), plain)
    assert_same(everything(opened(root, cache).prepared(), batch_size), plain)


def test_prepared_images_need_no_cache(root):
    assert_same(everything(opened(root).prepared()), everything(opened(root)))


def test_corrupted_images_are_kept_apart_from_clean_ones(root, cache, no_reading):
    clean = everything(opened(root, cache))
    fog = everything(opened(root, cache, corruption="fog", severity=3))
    other = everything(opened(root, cache, corruption="fog", severity=3, seed=1))
    assert not np.array_equal(clean[1], fog[1])
    assert not np.array_equal(fog[1], other[1])
    no_reading()
    assert_same(everything(opened(root, cache, corruption="fog", severity=3)), fog)
    assert_same(everything(opened(root, cache)), clean)


def test_a_changed_file_is_read_again(root, cache):
    before = everything(opened(root, cache))
    path = root / "b" / "1.png"
    path.write_bytes((root / "a" / "0.png").read_bytes())
    os.utime(path, (1, 1))
    after = everything(opened(root, cache))
    assert np.array_equal(after[1][4], before[1][0])
    assert after[0] == before[0]


def test_the_fingerprint_is_of_names_sizes_and_labels_not_of_places_and_times(root, tmp_path):
    copy = write_images(tmp_path / "copy", ["a", "b", "c"], each=3)
    os.utime(copy / "a" / "0.png", (1, 1))
    prints = [opened(where, **how).about.fingerprint for where in (root, copy) for how in ({}, {"limit": 5})]
    assert prints[:2] == prints[2:]
    assert prints[0] != prints[1]
    assert opened(root, corruption="fog", severity=1).about.fingerprint != prints[0]


@pytest.mark.parametrize("damage", ["cut", "no note", "bad note", "other shape"])
def test_a_damaged_cache_is_made_again(root, cache, damage):
    plain = everything(opened(root, cache))
    (pixels,), (note,) = cache.folder.glob("*.npy"), cache.folder.glob("*.json")
    if damage == "cut":
        pixels.write_bytes(pixels.read_bytes()[:-100])
    elif damage == "no note":
        note.unlink()
    elif damage == "bad note":
        note.write_text("{")
    else:
        np.save(pixels, np.zeros((9, 8, 8, 3), np.uint8))
    assert_same(everything(opened(root, cache)), plain)
    assert opened(root, cache)._cached() is not None


def test_a_pass_that_stops_early_leaves_nothing(root, cache):
    stream = opened(root, cache).batches(2)
    next(stream)
    stream.close()
    assert os.listdir(cache.folder) == []


def test_a_full_disk_costs_the_cache_and_not_the_run(root, cache, monkeypatch):
    def full(self, pixels, reason=""):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(CacheWriter, "add", full)
    images = opened(root, cache)
    assert_same(everything(images), everything(opened(root)))
    assert images.notes == [f"images are not kept in {cache.folder}: No space left on device"]
    assert os.listdir(cache.folder) == []


def test_the_cache_stays_within_its_limit(root, tmp_path):
    one = 9 * 32 * 32 * 3 + 128
    cache = ImageCache(tmp_path / "cache", limit=2.5 * one / 1e9)
    for severity in (1, 2):
        everything(opened(root, cache, corruption="fog", severity=severity))
    for note in cache.folder.glob("*.json"):
        os.utime(note, (1, 1))
    opened(root, cache, corruption="fog", severity=1)._cached()  # used again, so the other is the oldest
    everything(opened(root, cache, corruption="fog", severity=3))
    kept = [opened(root, cache, corruption="fog", severity=level)._cached() is not None for level in (1, 2, 3)]
    assert kept == [True, False, True]
    assert cache.bytes_used() <= cache.limit * 1e9


def test_a_set_larger_than_the_cache_is_not_kept_and_says_so(root, tmp_path):
    images = opened(root, ImageCache(tmp_path / "cache", limit=1e-6))
    assert images.cache is None
    assert "larger than the cache may be" in images.notes[0]
    assert len(everything(images)[1]) == 9


def test_images_outside_class_folders_are_refused(root):
    (root / "a" / "0.png").rename(root / "0.png")
    with pytest.raises(ValueError, match="is in no class folder"):
        opened(root)


def test_all_class_folders_count_also_those_without_images_of_this_limit(root):
    assert opened(root, limit=1).about.labels.tolist() == [0]
    (root / "d").mkdir()
    with pytest.raises(ValueError, match="4 class folders"):
        opened(root)
