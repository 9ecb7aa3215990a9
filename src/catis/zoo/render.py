"""Painting a scene: background, clutter, the object part by part, clutter in front, light."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from catis.zoo.objects import BUILDERS, CLASSES
from catis.zoo.scene import SIZE, Piece, Scene, luminance
from catis.zoo.sdf import Field, Plane, box, circle, join, polygon, ring
from catis.zoo.texture import background, pattern

_CENTRES = (np.arange(SIZE, dtype=np.float32) + 0.5)[None, :]


class Brush(NamedTuple):
    """How parts are laid down.

    Attributes:
        outline: half width in pixels of a line drawn along every part's edge; 0 for none.
        ink: colour of that line.
        fill: paper colour that replaces every fill, or None to keep the scene's colours.
        wash: with ``fill``, how much of a part's brightness is left as a grey wash.
        shade: strength of the darkening towards the edge of a part.
    """

    outline: float = 0.0
    ink: tuple[float, float, float] = (0.0, 0.0, 0.0)
    fill: tuple[float, float, float] | None = None
    wash: float = 0.0
    shade: float = 0.3


PLAIN = Brush()


class Window(NamedTuple):
    """Part of the image that a thing can touch."""

    rows: slice
    cols: slice


def _window(x: float, y: float, reach: float) -> Window:
    def span(c: float) -> slice:
        return slice(max(0, int(c - reach)), min(SIZE, max(0, int(c + reach) + 1)))

    return Window(span(y), span(x))


def _plane(w: Window, x: float, y: float, scale: float, turn: tuple[float, float]) -> Plane:
    """Coordinates of the window's pixels relative to (x, y), rotated, in units of ``scale`` pixels."""
    dx = (_CENTRES[:, w.cols] - x) / scale
    dy = (_CENTRES[:, w.rows].T - y) / scale
    c, s = turn
    return Plane(dx * c + dy * s, dy * c - dx * s)


def _blend(canvas: Field, w: Window, cover: Field, colour: Field) -> None:
    view = canvas[w.rows, w.cols]
    view += cover[:, :, None] * (colour - view)


def _edge(field: Field, scale: float) -> Field:
    """Share of each pixel inside the field."""
    out: Field = np.clip(0.5 - field * scale, 0.0, 1.0)
    return out


def _draw(canvas: Field, w: Window, field: Field, scale: float, colour: Field, brush: Brush) -> None:
    """Lay one part down: fill, then outline."""
    if brush.fill is not None:
        paper = np.asarray(brush.fill, dtype=np.float32)
        colour = paper + brush.wash * (luminance(colour)[..., None] - paper)
    _blend(canvas, w, _edge(field, scale), colour)
    if brush.outline > 0:
        line = np.abs(field) - brush.outline / scale
        _blend(canvas, w, _edge(line, scale), np.asarray(brush.ink, dtype=np.float32))


def _piece_field(p: Plane, kind: int) -> Field:
    if kind == 0:
        return circle(p, 0, 0, 0.8)
    if kind == 1:
        return box(p, 0, 0, 1.0, 0.3)
    if kind == 2:
        return polygon(p, (0, -0.9), (0.9, 0.7), (-0.9, 0.7))
    if kind == 3:
        return ring(p, 0, 0, 0.7, 0.35)
    return box(p, 0, 0, 0.65, 0.65)


def _paint_pieces(canvas: Field, pieces: tuple[Piece, ...], brush: Brush) -> None:
    for piece in pieces:
        w = _window(piece.x, piece.y, 1.5 * piece.size + 1)
        p = _plane(w, piece.x, piece.y, piece.size, piece.turn)
        if p.u.size:
            _draw(canvas, w, _piece_field(p, piece.kind), piece.size, piece.colour, brush)


def _part_colour(scene: Scene, p: Plane, field: Field, slot: int, textured: bool, shade: float) -> Field:
    """Colour of a part, per pixel: slot colour, texture, darker towards the edge."""
    colour = scene.colours[slot][None, None]
    if textured and scene.texture != "plain":
        mix = pattern(p, scene.texture, scene.freq, scene.scale / (4.0 * scene.freq))
        colour = colour + mix[:, :, None] * (scene.colours[4] - colour)
    depth = np.clip(field * 4.0 + 1.0, 0.0, 1.0)
    out: Field = colour * (1.0 - shade * depth)[:, :, None]
    return out


def _draw_marks(canvas: Field, w: Window, scene: Scene, p: Plane, field: Field, brush: Brush) -> None:
    """Outline the marks of a texture, for a brush that leaves fills empty: three classes are their texture."""
    mix = pattern(p, scene.texture, scene.freq, scene.scale / (8.0 * scene.freq))
    line = 3.2 * mix * (1.0 - mix) * _edge(field, scene.scale)
    _blend(canvas, w, line, np.asarray(brush.ink, dtype=np.float32))


def _object_plane(scene: Scene) -> tuple[Window, Plane]:
    w = _window(scene.x, scene.y, 1.5 * scene.scale + 2)
    u, v = _plane(w, scene.x, scene.y, scene.scale, scene.turn)
    return w, Plane(u * ((-1.0 if scene.mirror else 1.0) / scene.aspect), v)


def silhouette(scene: Scene) -> Field:
    """Share of every pixel that the object covers, whatever lies in front of it; (96, 96) in [0, 1]."""
    w, p = _object_plane(scene)
    out = np.zeros((SIZE, SIZE), dtype=np.float32)
    fields = [part.field for part in BUILDERS[CLASSES[scene.label]](p, scene.jitter)]
    out[w.rows, w.cols] = _edge(join(*fields), scene.scale)
    return out


def _paint_object(canvas: Field, scene: Scene, brush: Brush) -> None:
    w, p = _object_plane(scene)
    for part in BUILDERS[CLASSES[scene.label]](p, scene.jitter):
        colour = _part_colour(scene, p, part.field, part.slot, part.textured, brush.shade)
        _draw(canvas, w, part.field, scene.scale, colour, brush)
        if brush.fill is not None and part.textured and scene.texture != "plain":
            _draw_marks(canvas, w, scene, p, part.field, brush)


def _paint_ground(rng: np.random.Generator, scene: Scene) -> Field:
    everything = Window(slice(0, SIZE), slice(0, SIZE))
    c, s = scene.ground_turn
    plane = _plane(everything, 0.0, 0.0, 1.0, (c, s))
    period = 1.0 / max(abs(c), abs(s))
    mix = background(rng, plane, scene.style, period / 6.0)
    out: Field = scene.ground[0] + mix[:, :, None] * (scene.ground[1] - scene.ground[0])
    return out


def _lit(canvas: Field, scene: Scene) -> Field:
    """Apply the light: a brightness plane over the image."""
    base, gx, gy = scene.light
    ramp = (_CENTRES - SIZE / 2) / SIZE
    out: Field = canvas * (base + gx * ramp + gy * ramp.T)[:, :, None]
    return out


def quantise(canvas: Field) -> NDArray[np.uint8]:
    """Turn colours in [0, 1] into bytes."""
    out: NDArray[np.uint8] = np.floor(np.clip(canvas, 0.0, 1.0) * 255.0 + 0.5).astype(np.uint8)
    return out


def paint(rng: np.random.Generator, scene: Scene, brush: Brush = PLAIN, paper: Field | None = None) -> Field:
    """Paint a scene.

    Args:
        rng: the image's generator, for the background lattice and the sensor grain.
        scene: what to paint.
        brush: how.
        paper: paint on this instead of the scene's background, without light and grain.

    Returns:
        Colours, float32, (96, 96, 3), nominally in [0, 1].
    """
    canvas = _paint_ground(rng, scene) if paper is None else paper
    _paint_pieces(canvas, scene.behind, brush)
    _paint_object(canvas, scene, brush)
    _paint_pieces(canvas, scene.before, brush)
    if paper is not None:
        return canvas
    grain = rng.random((SIZE, SIZE, 1), dtype=np.float32)
    return _lit(canvas, scene) + (grain - 0.5) * np.float32(0.06)
