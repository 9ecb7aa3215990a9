"""The 15 ImageNet-C corruptions at 5 severities, for uint8 RGB images of any size.

Written from the published definitions (Hendrycks and Dietterich, 2019), with numpy, scipy and Pillow only.
The published constants are for 224 x 224 images. Noise, brightness, contrast, JPEG quality and pixelation
do not depend on size and are used as they are. Lengths in pixels (blur radii, motion length, glass reach,
elastic displacement and smoothing, snow) are multiplied by ``min(H, W) / 224``, so that a small image is
hurt as much, relative to what it shows, as a large one; at 224 they are the published ones.

Where this differs from the original: frost lays procedurally grown ice over the image instead of one of six
photographs; snow and fog draw their own random textures; glass blur takes every pixel from a random
neighbour at once instead of swapping pairs one by one; motion blur samples its line bilinearly. Gaussian,
shot and impulse noise, defocus, zoom, brightness, contrast, pixelate and JPEG follow the definition.

Everything random comes from a generator keyed by (seed, corruption, severity): the same call gives the same
image. Unlike the zoo's own pictures, results may differ by a grey level between platforms, because normal
deviates, scipy's filters and libjpeg are not specified to the last bit.
"""

from __future__ import annotations

from collections.abc import Callable
from io import BytesIO

import numpy as np
from numpy.typing import NDArray
from PIL import Image
from scipy import ndimage

from catis.data.blurs import Floats, defocus_blur, glass_blur, motion_blur, scale, zoom_blur
from catis.data.weather import fog, frost, snow

Bytes = NDArray[np.uint8]
Effect = Callable[[Floats, int, np.random.Generator], Floats]


def _gaussian_noise(x: Floats, level: int, rng: np.random.Generator) -> Floats:
    return x + rng.normal(scale=(0.08, 0.12, 0.18, 0.26, 0.38)[level], size=x.shape)


def _shot_noise(x: Floats, level: int, rng: np.random.Generator) -> Floats:
    photons = (60, 25, 12, 5, 3)[level]
    return rng.poisson(x * photons) / photons


def _impulse_noise(x: Floats, level: int, rng: np.random.Generator) -> Floats:
    """Salt and pepper, per channel value."""
    amount = (0.03, 0.06, 0.09, 0.17, 0.27)[level]
    hit = rng.random(x.shape) < amount
    return np.where(hit, (rng.random(x.shape) < 0.5).astype(np.float64), x)


def _brightness(x: Floats, level: int, rng: np.random.Generator) -> Floats:
    """Add to the V channel of HSV, keeping hue and saturation."""
    value = x.max(axis=2, keepdims=True)
    raised = np.clip(value + (0.1, 0.2, 0.3, 0.4, 0.5)[level], 0, 1)
    out: Floats = np.where(value > 0, x / np.maximum(value, 1e-12) * raised, raised)
    return out


def _contrast(x: Floats, level: int, rng: np.random.Generator) -> Floats:
    mean = x.mean(axis=(0, 1), keepdims=True)
    out: Floats = (x - mean) * (0.4, 0.3, 0.2, 0.1, 0.05)[level] + mean
    return out


def _elastic_transform(x: Floats, level: int, rng: np.random.Generator) -> Floats:
    """A random affine move of three points, then a smooth random displacement."""
    alpha, sigma, affine = (
        (488, 170.8, 24.4), (488, 19.5, 48.8), (12.2, 2.44, 4.88), (17.1, 2.44, 4.88), (29.3, 2.44, 4.88),
    )[level]  # fmt: skip
    h, w = x.shape[:2]
    s = scale(x)
    centre, half = np.array([h / 2, w / 2]), min(h, w) / 3
    base = centre + half * np.array([[1, 1], [1, -1], [-1, -1]])
    moved = base + rng.uniform(-affine * s, affine * s, base.shape)
    matrix = np.linalg.solve(np.c_[moved, np.ones(3)], base)
    bumps = [
        ndimage.gaussian_filter(rng.uniform(-1, 1, (h, w)), sigma * s, mode="reflect", truncate=3) for _ in range(2)
    ]
    rows, cols = np.mgrid[:h, :w].astype(np.float64)
    source = np.stack([rows, cols, np.ones_like(rows)], axis=2) @ matrix
    # Noise smoothed over s times fewer pixels keeps 1/s more of its height, hence s squared.
    grid = [source[..., i] + bumps[i] * alpha * s * s for i in range(2)]
    return np.stack([ndimage.map_coordinates(x[..., c], grid, order=1, mode="reflect") for c in range(3)], axis=2)


def _pixelate(x: Floats, level: int, rng: np.random.Generator) -> Floats:
    share = (0.6, 0.5, 0.4, 0.3, 0.25)[level]
    h, w = x.shape[:2]
    small = Image.fromarray(_bytes(x)).resize((max(1, int(w * share)), max(1, int(h * share))), Image.Resampling.BOX)
    return np.asarray(small.resize((w, h), Image.Resampling.BOX), dtype=np.float64) / 255


def _jpeg_compression(x: Floats, level: int, rng: np.random.Generator) -> Floats:
    file = BytesIO()
    Image.fromarray(_bytes(x)).save(file, "JPEG", quality=(25, 18, 15, 10, 7)[level])
    return np.asarray(Image.open(file), dtype=np.float64) / 255


_EFFECTS: dict[str, Effect] = {
    "gaussian_noise": _gaussian_noise, "shot_noise": _shot_noise, "impulse_noise": _impulse_noise,
    "defocus_blur": defocus_blur, "glass_blur": glass_blur, "motion_blur": motion_blur, "zoom_blur": zoom_blur,
    "snow": snow, "frost": frost, "fog": fog, "brightness": _brightness, "contrast": _contrast,
    "elastic_transform": _elastic_transform, "pixelate": _pixelate, "jpeg_compression": _jpeg_compression,
}  # fmt: skip
CORRUPTIONS: tuple[str, ...] = tuple(_EFFECTS)


def _bytes(x: Floats) -> Bytes:
    # Truncated, as ImageNet-C does; the nudge keeps untouched values what they were after / 255 * 255.
    return (np.clip(x, 0, 1) * 255 + 1e-6).astype(np.uint8)


def corrupt(image: Bytes, name: str, severity: int, seed: int) -> Bytes:
    """Corrupt one image.

    Args:
        image: (H, W, 3) bytes, at least 16 pixels each way.
        name: one of ``CORRUPTIONS``.
        severity: 1 (mild) to 5 (severe).
        seed: key of the random numbers, together with name and severity.

    Raises:
        ValueError: unknown name, severity outside 1 to 5, or not such an image.
    """
    if name not in _EFFECTS:
        raise ValueError(f"corruption {name!r}: expected one of {', '.join(CORRUPTIONS)}")
    if severity not in (1, 2, 3, 4, 5):
        raise ValueError(f"severity {severity!r}: expected a whole number from 1 to 5")
    if image.dtype != np.uint8 or image.ndim != 3 or image.shape[2] != 3 or min(image.shape[:2]) < 16:
        raise ValueError(f"image {image.dtype} {image.shape}: expected uint8 (H, W, 3), H and W at least 16")
    if seed < 0:
        raise ValueError(f"seed {seed!r}: expected a whole number, at least 0")
    rng = np.random.Generator(np.random.PCG64(np.random.SeedSequence([seed, CORRUPTIONS.index(name), severity])))
    return _bytes(_EFFECTS[name](image / 255.0, severity - 1, rng))
