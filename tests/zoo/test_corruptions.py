"""The 15 ImageNet-C corruptions: reproducible, growing with severity, and defined as published."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from catis import zoo
from catis.data.corruptions import CORRUPTIONS, corrupt

IMAGES = [zoo.dataset("clean", n=24)[i][0] for i in (2, 9, 17, 21)]


def damage(name: str, severity: int) -> float:
    """How much of the picture is lost: 1 - correlation with the original, mean over images and seeds."""
    pairs = [(x, corrupt(x, name, severity, seed)) for x in IMAGES for seed in (1, 2)]
    return float(np.mean([1 - np.corrcoef(x.ravel(), y.ravel())[0, 1] for x, y in pairs]))


@pytest.mark.parametrize("name", CORRUPTIONS)
def test_reproducible_and_keyed(name: str) -> None:
    x = IMAGES[0]
    before = x.copy()
    first, again = corrupt(x, name, 3, 5), corrupt(x, name, 3, 5)
    assert first.shape == x.shape
    assert first.dtype == np.uint8
    np.testing.assert_array_equal(first, again)
    np.testing.assert_array_equal(x, before)
    drawn = name not in ("defocus_blur", "zoom_blur", "brightness", "contrast", "pixelate", "jpeg_compression")
    assert drawn != np.array_equal(first, corrupt(x, name, 3, 6))


@pytest.mark.parametrize("name", CORRUPTIONS)
def test_severity_hurts(name: str) -> None:
    levels = [damage(name, severity) for severity in (1, 2, 3, 4, 5)]
    assert min(levels) > 0
    if name == "elastic_transform":
        return  # as published, severities 1 and 2 move the whole object and 3 to 5 crumple it: not one scale
    assert levels[-1] > 1.05 * levels[0]
    # Not strictly ordered, as published: snow and fog change character from one severity to the next.
    assert stats.spearmanr(range(5), levels).statistic > 0.25


def test_gaussian_noise_is_the_published_one() -> None:
    grey = np.full((96, 96, 3), 128, dtype=np.uint8)
    for severity, c in enumerate((0.08, 0.12, 0.18), start=1):
        got = corrupt(grey, "gaussian_noise", severity, 0) / 255.0
        assert got.std() == pytest.approx(c, rel=0.03)
        assert got.mean() == pytest.approx(0.5, abs=0.01)


def test_noise_leaves_untouched_pixels_alone() -> None:
    ramp = np.repeat(np.arange(256, dtype=np.uint8).reshape(16, 16, 1), 3, axis=2)
    got = corrupt(ramp, "impulse_noise", 1, 0)
    assert (got == ramp).mean() > 0.9


@pytest.mark.parametrize("shape", [(224, 224), (40, 64), (96, 50)])
def test_any_size(shape: tuple[int, int]) -> None:
    image = np.random.default_rng(0).integers(0, 256, (*shape, 3), dtype=np.uint8)
    for name in CORRUPTIONS:
        assert corrupt(image, name, 5, 0).shape == image.shape


def test_bad_arguments_are_named() -> None:
    x = IMAGES[0]
    with pytest.raises(ValueError, match="corruption 'rain': expected one of gaussian_noise"):
        corrupt(x, "rain", 1, 0)
    with pytest.raises(ValueError, match="severity 0: expected a whole number from 1 to 5"):
        corrupt(x, "fog", 0, 0)
    with pytest.raises(ValueError, match=r"image float32 \(96, 96, 3\): expected uint8"):
        corrupt(x.astype(np.float32), "fog", 1, 0)
    with pytest.raises(ValueError, match="seed -1"):
        corrupt(x, "fog", 1, -1)
