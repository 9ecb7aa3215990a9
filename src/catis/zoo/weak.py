"""The weak classifier that the hard view has to defeat: linear, on coarse grey levels and edge directions.

Features and weights are integers, so its decisions are the same on every platform.
"""

from __future__ import annotations

from functools import cache
from importlib.resources import files

import numpy as np
from numpy.typing import NDArray

from catis.zoo.scene import SIZE

CELL = 12
DIRECTIONS = 4
RESOURCE = "weak.npy"

Bytes = NDArray[np.uint8]
Ints = NDArray[np.int64]


def features(image: Bytes) -> Ints:
    """Per cell of 12 pixels: brightness and edge strength in four directions; and a constant.

    Args:
        image: (96, 96, 3) bytes.
    """
    grey = image.astype(np.int64) @ np.array([299, 587, 114]) // 1000
    gx = np.zeros_like(grey)
    gy = np.zeros_like(grey)
    gx[:, 1:-1] = grey[:, 2:] - grey[:, :-2]
    gy[1:-1] = grey[2:] - grey[:-2]
    ax, ay, diagonal = np.abs(gx), np.abs(gy), (gx * gy) > 0
    slanted = (2 * ax > ay) & (2 * ay > ax)
    kinds = np.where(slanted, np.where(diagonal, 2, 3), np.where(ax > ay, 0, 1))
    planes = [grey] + [np.where(kinds == k, ax + ay, 0) for k in range(DIRECTIONS)]
    cells = SIZE // CELL
    pooled = np.stack(planes).reshape(-1, cells, CELL, cells, CELL).sum(axis=(2, 4))
    level = pooled[0].sum() // cells**2
    pooled[0] = (pooled[0] - level) // CELL**2
    pooled[1:] = np.minimum(pooled[1:] * 64 // (pooled[1:].sum() // 256 + 1), 255)
    return np.append(pooled.reshape(-1), 128)


@cache
def _weights() -> NDArray[np.int64]:
    with (files(__package__) / "weights" / RESOURCE).open("rb") as file:
        table: NDArray[np.int64] = np.load(file, allow_pickle=False).astype(np.int64)
    return table


def rank(image: Bytes, label: int) -> int:
    """How many classes the weak classifier prefers to the true one; 0 means it is right."""
    scores = _weights() @ features(image)
    return int((scores > scores[label]).sum())
