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

from catis.data.textures import crystals, plasma

Bytes = NDArray[np.uint8]
Floats = NDArray[np.float64]
Effect = Callable[[Floats, int, np.random.Generator], Floats]


def _scale(x: Floats) -> float:
    out: float = min(x.shape[:2]) / 224.0
    return out


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


def _convolve(x: Floats, kernel: Floats) -> Floats:
    out: Floats = ndimage.convolve(x, kernel[:, :, None], mode="mirror")
    return out


def _disc(radius: float, soft: float) -> Floats:
    """Blurred disc kernel, summing to 1."""
    reach = max(8, int(np.ceil(radius)))
    at = np.arange(-reach, reach + 1)
    # Four samples per pixel and side: a radius below one pixel must still blur on small images.
    fine = (np.arange(4 * len(at)) - 2 * len(at) + 0.5) / 4
    inside = (fine[:, None] ** 2 + fine[None] ** 2 <= radius**2).astype(np.float64)
    kernel = inside.reshape(len(at), 4, len(at), 4).sum(axis=(1, 3)) if radius < 3 else _whole_disc(at, radius)
    kernel = ndimage.gaussian_filter(kernel, soft, truncate=3.0)
    out: Floats = kernel / kernel.sum()
    return out


def _whole_disc(at: NDArray[np.int64], radius: float) -> Floats:
    return (at[:, None] ** 2 + at[None] ** 2 <= radius**2).astype(np.float64)


def _defocus_blur(x: Floats, level: int, rng: np.random.Generator) -> Floats:
    radius, soft = ((3, 0.1), (4, 0.5), (6, 0.5), (8, 0.5), (10, 0.5))[level]
    return _convolve(x, _disc(radius * _scale(x), soft * _scale(x)))


def _glass_blur(x: Floats, level: int, rng: np.random.Generator) -> Floats:
    """Blur, let neighbouring pixels trade places a few times, blur again."""
    sigma, reach, rounds = ((0.7, 1, 2), (0.9, 2, 1), (1, 2, 3), (1.1, 3, 2), (1.5, 4, 2))[level]
    s = _scale(x)
    out = ndimage.gaussian_filter(x, (sigma * s, sigma * s, 0))
    h, w = x.shape[:2]
    rows, cols = np.mgrid[:h, :w]
    span = reach * s
    for _ in range(rounds):
        # Rounded at random, so that a reach below one pixel still moves some of them.
        dy, dx = np.floor(rng.uniform(-span, span, (2, h, w)) + rng.random((2, h, w))).astype(np.int64)
        out = out[np.clip(rows + dy, 0, h - 1), np.clip(cols + dx, 0, w - 1)]
    result: Floats = ndimage.gaussian_filter(out, (sigma * s, sigma * s, 0))
    return result


def _line_blur(x: Floats, radius: float, sigma: float, angle: float) -> Floats:
    """Average along a line through each pixel, one-sided, with Gaussian weights."""
    steps = max(2, int(np.ceil(2 * radius)) + 1)
    at = np.linspace(0.0, 2 * radius, steps)
    weights = np.exp(-(at**2) / (2 * sigma**2))
    weights /= weights.sum()
    pad = int(np.ceil(2 * radius)) + 1
    padded = np.pad(x, ((pad, pad), (pad, pad)) + ((0, 0),) * (x.ndim - 2), mode="edge")
    out = np.zeros_like(x)
    for t, weight in zip(at, weights, strict=True):
        out += weight * _moved(padded, pad, pad - t * np.sin(angle), pad - t * np.cos(angle), x.shape)
    return out


def _moved(padded: Floats, pad: int, top: float, left: float, shape: tuple[int, ...]) -> Floats:
    """Window of ``shape`` at a fractional offset, bilinear."""
    y, x = min(int(top), 2 * pad - 1), min(int(left), 2 * pad - 1)
    fy, fx = top - y, left - x
    h, w = shape[:2]
    corner = [[padded[y + i : y + i + h, x + j : x + j + w] for j in (0, 1)] for i in (0, 1)]
    upper = (1 - fx) * corner[0][0] + fx * corner[0][1]
    lower = (1 - fx) * corner[1][0] + fx * corner[1][1]
    out: Floats = (1 - fy) * upper + fy * lower
    return out


def _motion_blur(x: Floats, level: int, rng: np.random.Generator) -> Floats:
    radius, sigma = ((10, 3), (15, 5), (15, 8), (15, 12), (20, 15))[level]
    angle = np.deg2rad(rng.uniform(-45, 45))
    return _line_blur(x, radius * _scale(x), sigma * _scale(x), float(angle))


def _zoomed(x: Floats, factor: float) -> Floats:
    """Centre crop enlarged back to full size, bilinear."""
    h, w = x.shape[:2]
    rows = (np.arange(h) - (h - 1) / 2) / factor + (h - 1) / 2
    cols = (np.arange(w) - (w - 1) / 2) / factor + (w - 1) / 2
    grid = np.meshgrid(rows, cols, indexing="ij")
    return np.stack([ndimage.map_coordinates(x[..., c], grid, order=1) for c in range(3)], axis=2)


def _zoom_blur(x: Floats, level: int, rng: np.random.Generator) -> Floats:
    stop, step = ((1.11, 0.01), (1.16, 0.01), (1.21, 0.02), (1.26, 0.02), (1.31, 0.03))[level]
    factors = np.arange(1.0, stop, step)
    return (x + sum(_zoomed(x, float(f)) for f in factors)) / (len(factors) + 1)


def _snow(x: Floats, level: int, rng: np.random.Generator) -> Floats:
    """Bright flakes driven along a line, over a whitened image."""
    mean, spread, zoom, floor, radius, sigma, keep = (
        (0.1, 0.3, 3, 0.5, 10, 4, 0.8),
        (0.2, 0.3, 2, 0.5, 12, 4, 0.7),
        (0.55, 0.3, 4, 0.9, 12, 8, 0.7),
        (0.55, 0.3, 4.5, 0.85, 12, 8, 0.65),
        (0.55, 0.3, 2.5, 0.85, 12, 12, 0.55),
    )[level]
    s = _scale(x)
    flakes = _zoomed(np.repeat(rng.normal(mean, spread, x.shape[:2])[..., None], 3, 2), max(1.0, zoom * s))[..., 0]
    flakes = np.where(flakes < floor, 0.0, np.clip(flakes, 0, 1))
    flakes = _line_blur(flakes, radius * s, sigma * s, float(np.deg2rad(rng.uniform(45, 135))))
    grey = (x @ np.array([0.299, 0.587, 0.114]))[..., None]
    pale = keep * x + (1 - keep) * np.maximum(x, grey * 1.5 + 0.5)
    out: Floats = pale + flakes[..., None] + np.rot90(flakes, 2)[..., None]
    return out


def _frost(x: Floats, level: int, rng: np.random.Generator) -> Floats:
    keep, ice = ((1.0, 0.4), (0.8, 0.6), (0.7, 0.7), (0.65, 0.7), (0.6, 0.75))[level]
    return keep * x + ice * crystals(rng, x.shape[0], x.shape[1])


def _fog(x: Floats, level: int, rng: np.random.Generator) -> Floats:
    amount, decay = ((1.5, 2), (2.0, 2), (2.5, 1.7), (2.5, 1.5), (3.0, 1.4))[level]
    top = x.max()
    haze = plasma(rng, x.shape[0], x.shape[1], decay)[..., None]
    out: Floats = (x + amount * haze) * top / (top + amount)
    return out


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
    s = _scale(x)
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
    "defocus_blur": _defocus_blur, "glass_blur": _glass_blur, "motion_blur": _motion_blur, "zoom_blur": _zoom_blur,
    "snow": _snow, "frost": _frost, "fog": _fog, "brightness": _brightness, "contrast": _contrast,
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
