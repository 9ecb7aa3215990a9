"""Blurs of ImageNet-C; see ``corruptions`` for what is exact and how lengths scale."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage

Floats = NDArray[np.float64]


def scale(x: Floats) -> float:
    """Lengths at this image's size, relative to the 224 pixels the published constants are for."""
    return int(min(x.shape[:2])) / 224.0


def _disc(radius: float, soft: float) -> Floats:
    """Blurred disc kernel, summing to 1."""
    reach = max(8, int(np.ceil(radius)))
    at = np.arange(-reach, reach + 1)
    kernel = (at[:, None] ** 2 + at[None] ** 2 <= radius**2).astype(np.float64)
    if radius < 3:  # four samples per pixel and side: a radius below one pixel must still blur on small images
        fine = (np.arange(4 * len(at)) - 2 * len(at) + 0.5) / 4
        inside = (fine[:, None] ** 2 + fine[None] ** 2 <= radius**2).astype(np.float64)
        kernel = inside.reshape(len(at), 4, len(at), 4).sum(axis=(1, 3))
    kernel = ndimage.gaussian_filter(kernel, soft, truncate=3.0)
    out: Floats = kernel / kernel.sum()
    return out


def defocus_blur(x: Floats, level: int, rng: np.random.Generator) -> Floats:
    """Out of focus: convolution with a soft disc."""
    radius, soft = ((3, 0.1), (4, 0.5), (6, 0.5), (8, 0.5), (10, 0.5))[level]
    kernel = _disc(radius * scale(x), soft * scale(x))
    out: Floats = ndimage.convolve(x, kernel[:, :, None], mode="mirror")
    return out


def glass_blur(x: Floats, level: int, rng: np.random.Generator) -> Floats:
    """Blur, let neighbouring pixels trade places a few times, blur again."""
    sigma, reach, rounds = ((0.7, 1, 2), (0.9, 2, 1), (1, 2, 3), (1.1, 3, 2), (1.5, 4, 2))[level]
    s = scale(x)
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


def line_blur(x: Floats, radius: float, sigma: float, angle: float) -> Floats:
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


def motion_blur(x: Floats, level: int, rng: np.random.Generator) -> Floats:
    """Camera moved along a random line."""
    radius, sigma = ((10, 3), (15, 5), (15, 8), (15, 12), (20, 15))[level]
    angle = np.deg2rad(rng.uniform(-45, 45))
    return line_blur(x, radius * scale(x), sigma * scale(x), float(angle))


def zoomed(x: Floats, factor: float) -> Floats:
    """Centre crop enlarged back to full size, bilinear."""
    h, w = x.shape[:2]
    rows = (np.arange(h) - (h - 1) / 2) / factor + (h - 1) / 2
    cols = (np.arange(w) - (w - 1) / 2) / factor + (w - 1) / 2
    grid = np.meshgrid(rows, cols, indexing="ij")
    return np.stack([ndimage.map_coordinates(x[..., c], grid, order=1) for c in range(3)], axis=2)


def zoom_blur(x: Floats, level: int, rng: np.random.Generator) -> Floats:
    """Mean of the image and of its enlargements."""
    stop, step = ((1.11, 0.01), (1.16, 0.01), (1.21, 0.02), (1.26, 0.02), (1.31, 0.03))[level]
    factors = np.arange(1.0, stop, step)
    return (x + sum(zoomed(x, float(f)) for f in factors)) / (len(factors) + 1)
