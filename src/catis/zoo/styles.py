"""The rendition styles and the sketch: the same scenes, drawn by another hand.

Like the painter, these use exactly rounded operations only, so they are the same on every platform.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from catis.zoo.render import Brush, paint
from catis.zoo.scene import SIZE, Scene, luminance
from catis.zoo.sdf import Field, Plane
from catis.zoo.texture import noise, pattern, wave

Style = Callable[[np.random.Generator, Scene], Field]


def _pixels() -> Plane:
    at = np.arange(SIZE, dtype=np.float32)
    return Plane(at[None, :] + np.zeros((SIZE, 1), np.float32), at[:, None] + np.zeros((1, SIZE), np.float32))


def _cartoon(rng: np.random.Generator, scene: Scene) -> Field:
    """Flat colours in three steps per channel, black outlines around every part."""
    canvas = np.clip(paint(rng, scene, Brush(outline=0.8, shade=0.0)), 0.0, 1.0)
    out: Field = np.floor(canvas * 2.99 + 0.25) / np.float32(3.0)
    return out


def _painting(rng: np.random.Generator, scene: Scene) -> Field:
    """Oil: each pixel takes the calmest of four neighbouring windows (Kuwahara filter)."""
    canvas = paint(rng, scene, Brush(shade=0.45))
    padded = np.pad(canvas, ((3, 3), (3, 3), (0, 0)), mode="edge")
    corners = [(dy, dx) for dy in (0, 3) for dx in (0, 3)]
    taps = [padded[y : y + SIZE + 3, x : x + SIZE + 3] for y in range(4) for x in range(4)]
    mean, square = sum(taps[1:], taps[0]) / 16, sum((t * t for t in taps[1:]), taps[0] * taps[0]) / 16
    spread = luminance(square - mean * mean)
    best = np.stack([spread[dy : dy + SIZE, dx : dx + SIZE] for dy, dx in corners]).argmin(0)
    choices = np.stack([mean[dy : dy + SIZE, dx : dx + SIZE] for dy, dx in corners])
    out: Field = np.take_along_axis(choices, best[None, :, :, None], axis=0)[0]
    return out


def _inverted(rng: np.random.Generator, scene: Scene) -> Field:
    """Photographic negative."""
    return 1.0 - np.clip(paint(rng, scene), 0.0, 1.0)


def _mosaic(rng: np.random.Generator, scene: Scene) -> Field:
    """Square tiles of 3 pixels with dark grout, each a little off in brightness."""
    canvas = paint(rng, scene)
    tiles = canvas.reshape(SIZE // 3, 3, SIZE // 3, 3, 3)
    flat = (tiles[:, 0] + tiles[:, 1] + tiles[:, 2]) / 3
    flat = (flat[:, :, 0] + flat[:, :, 1] + flat[:, :, 2]) / 3
    flat = flat * (0.85 + 0.3 * rng.random((SIZE // 3, SIZE // 3, 1), dtype=np.float32))
    out = flat.repeat(3, axis=0).repeat(3, axis=1)
    out[2::3] *= 0.75
    out[:, 2::3] *= 0.75
    return out


def _print(rng: np.random.Generator, scene: Scene) -> Field:
    """Halftone: black dots on coloured paper, bigger where the picture is darker."""
    level = luminance(np.clip(paint(rng, scene), 0.0, 1.0))
    p = _pixels()
    screen = 0.25 * (wave((p.u + p.v) / 4.0) + wave((p.u - p.v) / 4.0)) + 0.5
    ink = np.clip((screen - level) * 3.0 + 0.5, 0.0, 1.0)[:, :, None]
    paper = 0.75 + 0.25 * scene.ground[1]
    out: Field = paper * (1.0 - 0.9 * ink)
    return out


def _neon(rng: np.random.Generator, scene: Scene) -> Field:
    """Glowing coloured edges on black."""
    canvas = paint(rng, scene, Brush(shade=0.0))
    down = np.abs(np.diff(canvas, axis=0, append=canvas[-1:]))
    right = np.abs(np.diff(canvas, axis=1, append=canvas[:, -1:]))
    edge = np.maximum(down, right).max(axis=2, keepdims=True)
    out: Field = np.clip(edge * 2.2, 0.0, 1.0) * (0.35 + 0.65 * np.clip(canvas, 0.0, 1.0))
    return out


def _quilt(rng: np.random.Generator, scene: Scene) -> Field:
    """Cloth: every part shows stitched diagonal threads."""
    canvas = paint(rng, scene, Brush(outline=0.5, ink=(0.9, 0.9, 0.85), shade=0.1))
    p = _pixels()
    threads = pattern(Plane(p.u - p.v, p.u + p.v), "stripes", 0.25, 1.0)
    return canvas * (0.65 + 0.35 * threads)[:, :, None]


def sketch(rng: np.random.Generator, scene: Scene) -> Field:
    """Pencil outlines on paper, of parts and texture marks, with a grey wash: no colour, no background."""
    tone = 0.85 + 0.12 * noise(rng, SIZE, 8)
    paper = tone[:, :, None] + np.zeros((1, 1, 3), np.float32)
    dark = 0.1 + 0.25 * float(rng.random())
    width = 0.4 + 0.5 * float(rng.random())
    fill = (0.91, 0.91, 0.91)
    brush = Brush(outline=width, ink=(dark, dark, dark), fill=fill, wash=0.6, shade=0.0)
    drawn = paint(rng, scene, brush, paper=paper)
    grain = rng.random((SIZE, SIZE, 1), dtype=np.float32)
    return drawn + (grain - 0.5) * np.float32(0.1)


STYLES: dict[str, Style] = {
    "cartoon": _cartoon,
    "painting": _painting,
    "inverted": _inverted,
    "mosaic": _mosaic,
    "print": _print,
    "neon": _neon,
    "quilt": _quilt,
}
"""Rendition styles by name; a rendition's style is drawn from the image's own stream."""
