"""Textures for objects and backgrounds, made of exactly rounded float32 operations only (see ``sdf``)."""

from __future__ import annotations

import numpy as np

from catis.zoo.sdf import Field, Plane

TEXTURES = ("plain", "stripes", "spots", "checks")
BACKGROUNDS = ("clouds", "grain", "stripes", "tiles", "spots", "weave")


def wave(x: Field) -> Field:
    """Triangle wave of period 1 between -1 and 1, in place of a sine."""
    out: Field = 4.0 * np.abs(x - np.floor(x + 0.5)) - 1.0
    return out


def _step(x: Field, sharp: float) -> Field:
    out: Field = np.clip(0.5 + x * sharp, 0.0, 1.0)
    return out


def pattern(p: Plane, name: str, freq: float, sharp: float) -> Field:
    """Evaluate a texture in plane coordinates.

    Args:
        p: coordinates.
        name: one of ``TEXTURES`` except ``plain``.
        freq: periods per unit of ``p``.
        sharp: slope of the soft edge, higher is harder; about pixels per quarter period looks antialiased.

    Returns:
        Mixing weight in [0, 1] of the texture's second colour.
    """
    if name == "stripes":
        return _step(wave(p.v * freq), sharp)
    if name == "checks":
        return _step(wave(p.u * (0.8 * freq)) * wave(p.v * (0.8 * freq)), 2.0 * sharp)
    a, b = wave(p.u * freq), wave(p.v * freq)
    return _step(0.55 - np.sqrt((a + 1.0) * (a + 1.0) + (b + 1.0) * (b + 1.0)) * 0.72, sharp)


def noise(rng: np.random.Generator, size: int, cells: int) -> Field:
    """Value noise in [0, 1]: a random lattice of ``cells`` x ``cells``, smoothly interpolated to ``size``."""
    lattice = rng.random((cells + 1, cells + 1), dtype=np.float32)
    at = (np.arange(size, dtype=np.float32) + 0.5) * np.float32(cells / size)
    low = at.astype(np.int64)
    frac = at - low
    frac = frac * frac * (3.0 - 2.0 * frac)
    rows = lattice[low] + (lattice[low + 1] - lattice[low]) * frac[:, None]
    out: Field = rows[:, low] + (rows[:, low + 1] - rows[:, low]) * frac
    return out


def background(rng: np.random.Generator, plane: Plane, style: str, sharp: float) -> Field:
    """Mixing weight in [0, 1] of a background of one style, over a whole square image.

    Args:
        rng: source of the lattice.
        plane: rotated and scaled coordinates, one period per unit.
        style: one of ``BACKGROUNDS``.
        sharp: as in ``pattern``.
    """
    size = plane.u.shape[0]
    mix = 0.6 * noise(rng, size, 4) + 0.4 * noise(rng, size, 11)
    if style == "clouds":
        return np.clip(2.2 * mix - 0.6, 0.0, 1.0)
    if style == "grain":
        return 0.4 * mix + 0.6 * noise(rng, size, 32)
    if style == "weave":
        u, v = wave(plane.u), wave(plane.v)
        return 0.35 * mix + 0.65 * np.maximum(u * wave(plane.v * 0.5), v * wave(plane.u * 0.5)).clip(0.0, 1.0)
    names = {"stripes": "stripes", "tiles": "checks", "spots": "spots"}
    return 0.35 * mix + 0.65 * pattern(plane, names[style], 1.0, sharp)
