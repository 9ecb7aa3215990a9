"""A scene: everything that was drawn at random for one image, before a pixel is painted."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from catis.zoo.objects import CLASSES, FIXED_TEXTURE
from catis.zoo.sdf import Field
from catis.zoo.texture import BACKGROUNDS, TEXTURES

SIZE = 96
LUMA = (0.299, 0.587, 0.114)
HOME_RATE = 0.4
"""Share of clean images whose background style is the one its class prefers: a shortcut that the hard view breaks."""


@dataclass(frozen=True)
class Piece:
    """One scrap of clutter: primitive kind, centre in pixels, half size in pixels, direction, colour."""

    kind: int
    x: float
    y: float
    size: float
    turn: tuple[float, float]
    colour: Field


@dataclass(frozen=True)
class Scene:
    """All random choices of one image.

    Attributes:
        label: class index.
        x, y: object centre in pixels.
        scale: pixels per object unit; the object is about two units tall.
        turn: (cos, sin) of the object's rotation.
        aspect: horizontal stretch.
        mirror: whether the object is flipped left to right.
        jitter: proportions of the parts.
        texture: texture on the object, its frequency in periods per unit.
        colours: five colours: four slots and the texture's second colour.
        style: background style.
        ground: two background colours.
        ground_turn: background direction times periods per pixel.
        behind, before: clutter behind and in front of the object.
        light: brightness at the centre and its gradient along x and y.
    """

    label: int
    x: float
    y: float
    scale: float
    turn: tuple[float, float]
    aspect: float
    mirror: bool
    jitter: tuple[float, ...]
    texture: str
    freq: float
    colours: Field
    style: str
    ground: Field
    ground_turn: tuple[float, float]
    behind: tuple[Piece, ...]
    before: tuple[Piece, ...]
    light: tuple[float, float, float]


def luminance(canvas: Field) -> Field:
    """Brightness of every colour."""
    out: Field = canvas[..., 0] * LUMA[0] + canvas[..., 1] * LUMA[1] + canvas[..., 2] * LUMA[2]
    return out


def rotation(t: float) -> tuple[float, float]:
    """Point on the unit circle at half-angle tangent ``t``: a rotation without sine or cosine."""
    d = 1.0 + t * t
    return (1.0 - t * t) / d, 2.0 * t / d


def _colour(rng: np.random.Generator, luma: float) -> Field:
    """Random hue at about the given luminance."""
    rgb = rng.random(3, dtype=np.float32)
    shift = luma - float(rgb[0] * LUMA[0] + rgb[1] * LUMA[1] + rgb[2] * LUMA[2])
    out: Field = np.clip(rgb + np.float32(shift), 0.02, 0.98)
    return out


def _span(rng: np.random.Generator, low: float, high: float) -> float:
    return low + (high - low) * float(rng.random())


def _away(rng: np.random.Generator, luma: float, low: float, high: float) -> float:
    """A luminance at a distance between low and high from ``luma``, on the side that has room."""
    gap = _span(rng, low, high)
    up = luma + gap < 0.95 and (luma - gap < 0.05 or rng.random() < 0.5)
    return min(0.95, max(0.05, luma + gap if up else luma - gap))


def _pieces(rng: np.random.Generator, count: int, near: tuple[float, float, float] | None) -> tuple[Piece, ...]:
    """Draw clutter anywhere, or around ``near`` = (x, y, reach)."""
    out = []
    for _ in range(count):
        a, b = float(rng.random()), float(rng.random())
        x, y = (a * SIZE, b * SIZE)
        if near is not None:
            x, y = near[0] + (2 * a - 1) * near[2], near[1] + (2 * b - 1) * near[2]
        colour = _colour(rng, _span(rng, 0.1, 0.9))
        turn = rotation(_span(rng, -1.0, 1.0))
        out.append(Piece(int(rng.integers(5)), x, y, _span(rng, 3.0, 8.5), turn, colour))
    return tuple(out)


def _ground_style(rng: np.random.Generator, label: int, hard: bool) -> str:
    """Clean: often the class's own style. Hard: always the style another group of classes prefers."""
    home = label % len(BACKGROUNDS)
    other = (home + 1 + int(rng.integers(len(BACKGROUNDS) - 1))) % len(BACKGROUNDS)
    anywhere = int(rng.integers(len(BACKGROUNDS)))
    at_home = rng.random() < HOME_RATE
    return BACKGROUNDS[other if hard else home if at_home else anywhere]


def _object_colours(rng: np.random.Generator, ground: float, hard: bool) -> Field:
    """Four slot colours that stand out from the ground (little, if hard) and from each other."""
    low, high = (0.16, 0.32) if hard else (0.25, 0.5)
    main = _away(rng, ground, low, high)
    lumas = [main, _away(rng, ground, low, high), _away(rng, main, 0.3, 0.5), _away(rng, main, 0.3, 0.5)]
    lumas.append(_away(rng, main, 0.25, 0.4))
    return np.stack([_colour(rng, luma) for luma in lumas])


def draw_scene(rng: np.random.Generator, label: int, hard: bool = False) -> Scene:
    """Draw every random choice of one image.

    Args:
        rng: generator of this image alone.
        label: class index.
        hard: draw from the hard tail: small, partly covered, low contrast, crowded, on another class's background.
    """
    scale = _span(rng, 16.0, 24.0) if hard else _span(rng, 20.0, 34.0)
    room = max(4.0, SIZE / 2 - 0.95 * scale)
    x, y = (SIZE / 2 + room * _span(rng, -1.0, 1.0) for _ in range(2))
    luma = _span(rng, 0.2, 0.8)
    spread = _span(rng, 0.1, 0.3)
    name = CLASSES[label]
    texture = TEXTURES[max(0, int(rng.integers(6)) - 2)]
    ground = np.stack([_colour(rng, luma - spread / 2), _colour(rng, luma + spread / 2)])
    direction = rotation(_span(rng, -1.0, 1.0))
    period = _span(rng, 8.0, 20.0)
    behind = _pieces(rng, int(rng.integers(8, 14) if hard else rng.integers(3, 9)), None)
    before = _pieces(
        rng, int(rng.integers(2, 5) if hard else rng.integers(0, 3)), (x, y, 0.8 * scale if hard else 34.0)
    )
    return Scene(
        label=label, x=x, y=y, scale=scale,
        turn=rotation(_span(rng, -0.3, 0.3)),
        aspect=_span(rng, 0.85, 1.15),
        mirror=bool(rng.random() < 0.5),
        jitter=tuple(_span(rng, -1.0, 1.0) for _ in range(3)),
        texture=FIXED_TEXTURE.get(name, texture),
        freq=_span(rng, 1.5, 2.4),
        colours=_object_colours(rng, luma, hard),
        style=_ground_style(rng, label, hard),
        ground=ground,
        ground_turn=(direction[0] / period, direction[1] / period),
        behind=behind, before=before,
        light=(_span(rng, 0.8, 1.1), _span(rng, -0.35, 0.35), _span(rng, -0.35, 0.35)),
    )  # fmt: skip
