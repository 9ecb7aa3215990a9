"""Weather of ImageNet-C, and the random textures it lays over an image; see ``corruptions`` for what is exact."""

from __future__ import annotations

import numpy as np
from scipy import ndimage

from catis.data.blurs import Floats, line_blur, scale, zoomed


def snow(x: Floats, level: int, rng: np.random.Generator) -> Floats:
    """Bright flakes driven along a line, over a whitened image."""
    mean, spread, zoom, floor, radius, sigma, keep = (
        (0.1, 0.3, 3, 0.5, 10, 4, 0.8),
        (0.2, 0.3, 2, 0.5, 12, 4, 0.7),
        (0.55, 0.3, 4, 0.9, 12, 8, 0.7),
        (0.55, 0.3, 4.5, 0.85, 12, 8, 0.65),
        (0.55, 0.3, 2.5, 0.85, 12, 12, 0.55),
    )[level]
    s = scale(x)
    flakes = zoomed(np.repeat(rng.normal(mean, spread, x.shape[:2])[..., None], 3, 2), max(1.0, zoom * s))[..., 0]
    flakes = np.where(flakes < floor, 0.0, np.clip(flakes, 0, 1))
    flakes = line_blur(flakes, radius * s, sigma * s, float(np.deg2rad(rng.uniform(45, 135))))
    grey = (x @ np.array([0.299, 0.587, 0.114]))[..., None]
    pale = keep * x + (1 - keep) * np.maximum(x, grey * 1.5 + 0.5)
    out: Floats = pale + flakes[..., None] + np.rot90(flakes, 2)[..., None]
    return out


def frost(x: Floats, level: int, rng: np.random.Generator) -> Floats:
    """Ice over a dimmed image."""
    keep, ice = ((1.0, 0.4), (0.8, 0.6), (0.7, 0.7), (0.65, 0.7), (0.6, 0.75))[level]
    return keep * x + ice * crystals(rng, x.shape[0], x.shape[1])


def fog(x: Floats, level: int, rng: np.random.Generator) -> Floats:
    """Plasma haze, brightness kept."""
    amount, decay = ((1.5, 2), (2.0, 2), (2.5, 1.7), (2.5, 1.5), (3.0, 1.4))[level]
    top = x.max()
    haze = plasma(rng, x.shape[0], x.shape[1], decay)[..., None]
    out: Floats = (x + amount * haze) * top / (top + amount)
    return out


def plasma(rng: np.random.Generator, height: int, width: int, decay: float) -> Floats:
    """Cloud fractal in [0, 1]: octaves of smooth noise, each finer and weaker by ``decay`` than the last."""
    out = np.zeros((height, width))
    cells, amplitude = 2, 1.0
    while cells <= max(height, width):
        lattice = rng.uniform(-1, 1, (cells + 1, cells + 1))
        rows, cols = np.linspace(0, cells, height), np.linspace(0, cells, width)
        grid = np.meshgrid(rows, cols, indexing="ij")
        out += amplitude * ndimage.map_coordinates(lattice, grid, order=1)
        cells, amplitude = cells * 2, amplitude / decay
    out -= out.min()
    return out / max(float(out.max()), 1e-12)


def crystals(rng: np.random.Generator, height: int, width: int) -> Floats:
    """Ice on a window, (H, W, 3) in [0, 1]: bright needles from random seeds, denser towards one side, bluish."""
    count = 24
    rows, cols = np.mgrid[:height, :width] / min(height, width)
    ice = np.zeros((height, width))
    for cy, cx, turn, size in rng.uniform(size=(count, 4)) * (height / min(height, width), 1.3, np.pi, 0.35):
        y, x = rows - cy, cols - cx
        far = np.sqrt(x * x + y * y)
        # Six-fold needles: brightness falls with distance from the seed and from the nearest of six rays.
        off = np.abs(np.sin(3 * (np.arctan2(y, x) - turn)))
        ice = np.maximum(ice, np.clip(1 - far / (size + 0.1), 0, 1) * (1 - off) ** 2)
    veil = plasma(rng, height, width, 1.6)
    level = np.clip(0.75 * veil + 0.8 * ice - 0.1, 0, 1)
    out: Floats = level[..., None] * np.array([0.88, 0.95, 1.0])
    return out
