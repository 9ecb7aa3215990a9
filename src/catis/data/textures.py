"""Random textures that weather corruptions lay over an image: fog and ice."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage

Floats = NDArray[np.float64]


def plasma(rng: np.random.Generator, height: int, width: int, decay: float) -> Floats:
    """Cloud fractal in [0, 1]: octaves of smooth noise, each finer and weaker by ``decay`` than the last.

    Args:
        rng: source of the lattices.
        height: rows.
        width: columns.
        decay: amplitude ratio of one octave to the next; lower is rougher.
    """
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
    """Ice on a window, (H, W, 3) in [0, 1]: bright needles from random seeds, denser towards one side, bluish.

    Args:
        rng: source of seeds and directions.
        height: rows.
        width: columns.
    """
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
