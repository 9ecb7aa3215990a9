"""Folders of images: timm's preprocessing, seeds by name, and what is refused."""

import os
from functools import partial

import numpy as np
import pytest
import timm
import torch
from PIL import Image
from timm.data import create_transform

from catis import hosts
from catis.data.batches import batches
from catis.data.corruptions import CORRUPTIONS, corrupt
from catis.data.images import BrokenImage, ImageArrays, ImageFolder, NoImagesError
from catis.data.preprocessing import Preprocessing


def noise(seed=0, size=(70, 50)):
    return Image.fromarray(np.random.default_rng(seed).integers(0, 256, (*size, 3), dtype=np.uint8))


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "a").mkdir()
    for i in range(5):
        noise(i).save(tmp_path / ("a" if i % 2 else ".") / f"{i}.png")
    return tmp_path


SMALL = Preprocessing((32, 32), 0.9)


def test_pixels_and_normalisation_are_timms_own():
    ours = Preprocessing((32, 32), 0.9, (0.5, 0.4, 0.3), (0.2, 0.3, 0.4), "bilinear")
    theirs = create_transform((3, 32, 32), crop_pct=0.9, mean=ours.mean, std=ours.std, interpolation="bilinear")
    image = noise()
    torch.testing.assert_close(ours.normalise([ours.pixels(image)])[0], theirs(image))


def test_a_models_own_configuration_is_taken():
    found = hosts.find(timm.create_model("vit_tiny_patch16_224")).preprocessing()
    assert (found.size, found.crop_pct, found.mean) == ((224, 224), 0.9, (0.5, 0.5, 0.5))
    assert hosts.find(timm.create_model("vit_tiny_patch16_224", img_size=64)).preprocessing().size == (64, 64)


def test_all_images_below_the_root_in_order_of_their_paths(folder):
    assert ImageFolder(folder, SMALL).names == ["0.png", "2.png", "4.png", "a/1.png", "a/3.png"]
    assert ImageFolder(folder, SMALL, limit=2).names == ["0.png", "4.png"]
    assert len(ImageFolder(folder, SMALL, limit=99)) == 5
    with pytest.raises(ValueError, match="at least one image"):
        ImageFolder(folder, SMALL, limit=0)


def damaged(folder, batch_size, workers, seed=0, name="shot_noise", severity=3):
    found = {}
    damage = partial(corrupt, name=name, severity=severity)
    for batch in batches(ImageFolder(folder, SMALL), batch_size, workers, damage, seed):
        found |= dict(zip(batch.names, batch.damaged, strict=True))
    return found


def test_corruption_depends_on_the_name_and_the_seed_alone(folder):
    one = damaged(folder, 1, 1)
    for batch_size, workers in ((2, 1), (5, 3)):
        other = damaged(folder, batch_size, workers)
        assert one.keys() == other.keys()
        assert all(np.array_equal(one[name], other[name]) for name in one)
    (folder / "0.png").unlink()
    assert np.array_equal(damaged(folder, 2, 1)["2.png"], one["2.png"])
    assert not np.array_equal(damaged(folder, 2, 1, seed=1)["2.png"], one["2.png"])


@pytest.mark.parametrize("severity", [1, 5])
@pytest.mark.parametrize("name", CORRUPTIONS)
def test_every_corruption_is_seeded_per_image(folder, name, severity):
    """The two that ignore the seed in the public package (impulse_noise, glass_blur) are among them."""
    one, other = (damaged(folder, *how, name=name, severity=severity) for how in ((1, 1), (4, 2)))
    assert len(one) == 5
    assert all(np.array_equal(one[image], other[image]) for image in one)


def test_images_of_one_content_get_noise_of_their_own(tmp_path):
    for name in ("x.png", "y.png"):
        noise().save(tmp_path / name)
    found = damaged(tmp_path, 2, 1)
    assert not np.array_equal(found["x.png"], found["y.png"])


def test_broken_images_are_listed_and_never_replaced(folder):
    (folder / "bad.jpg").write_text("not an image")
    (folder / "empty.png").touch()
    whole = (folder / "0.png").read_bytes()
    (folder / "cut.png").write_bytes(whole[: len(whole) // 2])
    found = list(batches(ImageFolder(folder, SMALL), 3))
    assert sum(len(batch.pixels) for batch in found) == 5
    assert {item.name for batch in found for item in batch.broken} == {"bad.jpg", "cut.png", "empty.png"}
    assert all(item.reason and str(folder) not in item.reason for batch in found for item in batch.broken)


def test_symlinks_out_of_the_folder_are_refused_and_inside_it_followed(folder, tmp_path_factory):
    secret = tmp_path_factory.mktemp("elsewhere") / "secret.png"
    noise(9).save(secret)
    os.symlink(secret, folder / "out.png")
    os.symlink(folder / "0.png", folder / "in.png")
    source = ImageFolder(folder, SMALL)
    refused = source.read(source.names.index("out.png"))
    assert isinstance(refused, BrokenImage)
    assert "symlink" in refused.reason
    assert isinstance(source.read(source.names.index("in.png")), np.ndarray)


@pytest.mark.filterwarnings("ignore::PIL.Image.DecompressionBombWarning")
@pytest.mark.parametrize("limit", [3000, 500])  # above it, and above twice it, where Pillow itself raises
def test_decompression_bombs_are_refused(folder, monkeypatch, limit):
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", limit)
    found = ImageFolder(folder, SMALL).read(0)
    assert isinstance(found, BrokenImage)
    assert "bomb" in found.reason


@pytest.mark.parametrize("mode", ["L", "LA", "P", "RGBA", "CMYK", "I;16", "1"])
def test_every_mode_becomes_rgb(tmp_path, mode):
    suffix = "tif" if mode == "CMYK" else "png"
    image = Image.fromarray(np.zeros((40, 40), np.uint16)) if mode == "I;16" else noise().convert(mode)
    image.save(tmp_path / f"x.{suffix}")
    pixels = ImageFolder(tmp_path, SMALL).read(0)
    assert pixels.shape == (32, 32, 3)
    assert pixels.dtype == np.uint8


def test_folders_without_images_say_what_they_hold(tmp_path):
    (tmp_path / "notes.txt").write_text("x")
    with pytest.raises(NoImagesError, match="1 files, none ending in"):
        ImageFolder(tmp_path)
    with pytest.raises(NoImagesError, match="not there"):
        ImageFolder(tmp_path / "no")
    with pytest.raises(NoImagesError, match="a file"):
        ImageFolder(tmp_path / "notes.txt")


def test_arrays_are_taken_as_they_are_and_others_refused():
    good = np.zeros((4, 4, 3), np.uint8)
    assert ImageArrays([(good, 3)]).read(0) is not None
    assert isinstance(ImageArrays([good.astype(np.float32)]).read(0), BrokenImage)


def test_stopping_early_leaves_no_thread_behind(folder):
    stream = batches(ImageFolder(folder, SMALL), 1)
    next(stream)
    stream.close()
    with pytest.raises(StopIteration):
        next(stream)


def test_bad_sizes_are_refused(folder):
    with pytest.raises(ValueError, match="at least 1 each"):
        next(batches(ImageFolder(folder, SMALL), 0))
