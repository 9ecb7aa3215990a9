"""Signed-distance primitives, the only geometry the procedural image set uses, and the parts made of them.

Every per-pixel operation here is one of ``+ - * / sqrt min max abs`` on float32. IEEE 754 rounds
those exactly, so a picture is the same bit for bit on every platform; sine, cosine and exponentials,
which differ between maths libraries in the last bit, never touch a pixel.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Field = NDArray[np.floating[Any]]


class Plane(NamedTuple):
    """Object coordinates of every pixel of a window: u to the right, v down, object within about +-1."""

    u: Field
    v: Field


def unit(turn: float) -> tuple[float, float]:
    """Return (cos, sin) of ``turn`` full turns, rounded so that no maths library can disagree."""
    angle = 2.0 * math.pi * turn
    return round(math.cos(angle), 6), round(math.sin(angle), 6)


def circle(p: Plane, cx: float, cy: float, r: float) -> Field:
    """Disc of radius r."""
    x, y = p.u - cx, p.v - cy
    out: Field = np.sqrt(x * x + y * y) - r
    return out


def ring(p: Plane, cx: float, cy: float, r: float, width: float) -> Field:
    """Annulus around radius r, ``width`` thick."""
    return np.abs(circle(p, cx, cy, r)) - 0.5 * width


def ellipse(p: Plane, cx: float, cy: float, rx: float, ry: float) -> Field:
    """Axis-parallel ellipse; distance is first-order exact at the edge, which is all antialiasing needs."""
    x, y = (p.u - cx) / rx, (p.v - cy) / ry
    level = np.sqrt(x * x + y * y)
    x, y = x / rx, y / ry
    slope = np.sqrt(x * x + y * y) + np.float32(1e-6)
    out: Field = level * (level - 1.0) / slope
    return out


def box(p: Plane, cx: float, cy: float, hx: float, hy: float) -> Field:
    """Rectangle with half sizes hx, hy."""
    out: Field = np.maximum(np.abs(p.u - cx) - hx, np.abs(p.v - cy) - hy)
    return out


def capsule(p: Plane, a: tuple[float, float], b: tuple[float, float], r: float) -> Field:
    """Segment from a to b with round ends, thickness 2 r."""
    dx, dy = b[0] - a[0], b[1] - a[1]
    x, y = p.u - a[0], p.v - a[1]
    along = np.clip((x * dx + y * dy) / (dx * dx + dy * dy), 0.0, 1.0)
    x, y = x - along * dx, y - along * dy
    return np.sqrt(x * x + y * y) - r


def polygon(p: Plane, *corners: tuple[float, float]) -> Field:
    """Convex polygon, corners in clockwise screen order."""
    out: Field | None = None
    for (ax, ay), (bx, by) in zip(corners, corners[1:] + corners[:1], strict=True):
        ex, ey = bx - ax, by - ay
        length = math.sqrt(ex * ex + ey * ey)
        side = (p.u - ax) * (ey / length) - (p.v - ay) * (ex / length)
        out = side if out is None else np.maximum(out, side)
    if out is None:
        raise ValueError("polygon needs corners, got none")
    return out


def join(*fields: Field) -> Field:
    """Union."""
    out = fields[0]
    for field in fields[1:]:
        out = np.minimum(out, field)
    return out


def cut(field: Field, *holes: Field) -> Field:
    """Difference: ``field`` without the holes."""
    for hole in holes:
        field = np.maximum(field, -hole)
    return field


class Part(NamedTuple):
    """One painted piece: distance field, colour slot, and whether the object's texture is drawn on it."""

    field: Field
    slot: int
    textured: bool = False


Jitter = Sequence[float]
"""Three numbers in [-1, 1] that vary an object's proportions."""

Builder = Callable[[Plane, Jitter], list[Part]]
