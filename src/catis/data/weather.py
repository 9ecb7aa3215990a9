"""Weather of ImageNet-C; see ``corruptions`` for what is exact and how lengths scale."""

from __future__ import annotations

import numpy as np

from catis.data.blurs import Floats, line_blur, scale, zoomed
from catis.data.textures import crystals, plasma


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
