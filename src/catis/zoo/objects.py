"""The 24 object classes: each is a short list of parts, built from signed-distance primitives.

No class owns a colour. Many share a part (rings, discs, bars, triangles) and three share one silhouette
and differ only in texture, so a classifier has to see shape, arrangement of parts, and texture.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from catis.zoo.sdf import Field, Plane, box, capsule, circle, cut, ellipse, join, polygon, ring, unit


class Part(NamedTuple):
    """One painted piece: distance field, colour slot, and whether the object's texture is drawn on it."""

    field: Field
    slot: int
    textured: bool = False


Jitter = Sequence[float]
Builder = Callable[[Plane, Jitter], list[Part]]


def _cup(p: Plane, j: Jitter) -> list[Part]:
    w = 0.55 + 0.08 * j[0]
    body = polygon(p, (-w, -0.7), (w, -0.7), (w - 0.12, 0.75), (0.12 - w, 0.75))
    return [
        Part(ring(p, w, 0.0, 0.36 + 0.05 * j[1], 0.15), 1),
        Part(body, 0, True),
        Part(ellipse(p, 0, -0.7, w, 0.14), 2),
    ]


def _bottle(p: Plane, j: Jitter) -> list[Part]:
    w = 0.36 + 0.05 * j[0]
    neck = -0.35 + 0.08 * j[1]
    body = join(box(p, 0, 0.3, w, 0.65), ellipse(p, 0, neck, w, 0.3), box(p, 0, -0.6, 0.13, 0.35))
    return [Part(body, 0, True), Part(box(p, 0, 0.35, w, 0.24), 2), Part(box(p, 0, -0.92, 0.17, 0.09), 1)]


def _house(p: Plane, j: Jitter) -> list[Part]:
    w = 0.68 + 0.06 * j[0]
    top = -0.85 + 0.1 * j[1]
    roof = polygon(p, (0, top), (w + 0.2, -0.1), (-w - 0.2, -0.1))
    door = 0.3 if j[2] > 0 else -0.3
    return [
        Part(box(p, 0.42, -0.6, 0.11, 0.28), 2),
        Part(box(p, 0, 0.36, w, 0.48), 0, True),
        Part(roof, 1),
        Part(box(p, door, 0.52, 0.14, 0.32), 2),
        Part(box(p, -door, 0.28, 0.18, 0.16), 3),
    ]


def _car(p: Plane, j: Jitter) -> list[Part]:
    top = -0.55 + 0.06 * j[0]
    cabin = polygon(p, (-0.35, top), (0.35, top), (0.62, 0.0), (-0.6, 0.0))
    glass = polygon(p, (-0.28, top + 0.1), (0.28, top + 0.1), (0.44, -0.06), (-0.44, -0.06))
    r = 0.24 + 0.03 * j[1]
    wheels = join(circle(p, -0.52, 0.38, r), circle(p, 0.52, 0.38, r))
    hubs = join(circle(p, -0.52, 0.38, 0.1), circle(p, 0.52, 0.38, 0.1))
    return [
        Part(cabin, 0, True),
        Part(cut(glass, box(p, 0, -0.2, 0.05, 0.5)), 3),
        Part(box(p, 0, 0.17, 0.95, 0.23), 0, True),
        Part(wheels, 1),
        Part(hubs, 2),
    ]


def _boat(p: Plane, j: Jitter) -> list[Part]:
    top = -0.92 + 0.08 * j[0]
    hull = polygon(p, (-0.9, 0.35), (0.9, 0.35), (0.55, 0.8), (-0.55, 0.8))
    return [
        Part(box(p, 0, -0.25, 0.05, 0.65), 1),
        Part(polygon(p, (0.09, top), (0.75 + 0.08 * j[1], 0.22), (0.09, 0.22)), 2, True),
        Part(polygon(p, (-0.09, top + 0.2), (-0.09, 0.22), (-0.55, 0.22)), 3),
        Part(hull, 0),
    ]


def _fish(p: Plane, j: Jitter) -> list[Part]:
    h = 0.42 + 0.06 * j[0]
    tail = cut(polygon(p, (0.4, 0.0), (0.98, -0.45), (0.98, 0.45)), circle(p, 1.1, 0.0, 0.25))
    fin = polygon(p, (-0.25, -h + 0.12), (0.05, -h - 0.28), (0.3, -h + 0.15))
    return [
        Part(join(tail, fin), 1),
        Part(ellipse(p, -0.17, 0, 0.75, h), 0, True),
        Part(circle(p, -0.58, -0.1, 0.11), 2),
        Part(circle(p, -0.58, -0.1, 0.05), 3),
    ]


def _fir(p: Plane, j: Jitter) -> list[Part]:
    w = 0.7 + 0.08 * j[0]
    tiers = join(
        polygon(p, (0, -0.98), (0.55 * w, -0.4), (-0.55 * w, -0.4)),
        polygon(p, (0, -0.65), (0.8 * w, 0.05), (-0.8 * w, 0.05)),
        polygon(p, (0, -0.3), (w, 0.6), (-w, 0.6)),
    )
    return [Part(box(p, 0, 0.75, 0.13, 0.23), 1), Part(tiers, 0, True)]


def _mushroom(p: Plane, j: Jitter) -> list[Part]:
    w = 0.85 + 0.08 * j[0]
    cap = cut(ellipse(p, 0, 0.0, w, 0.75), box(p, 0, 0.58, 1.2, 0.5))
    dots = join(circle(p, -0.4, -0.2, 0.13), circle(p, 0.08, -0.45, 0.14), circle(p, 0.45, -0.15, 0.11))
    return [Part(ellipse(p, 0, 0.42, 0.27 + 0.05 * j[1], 0.52), 1), Part(cap, 0, True), Part(dots, 2)]


def _key(p: Plane, j: Jitter) -> list[Part]:
    bow = ring(p, -0.55, 0.0, 0.31 + 0.04 * j[0], 0.2)
    teeth = join(box(p, 0.82, 0.2, 0.08, 0.2), box(p, 0.55, 0.16, 0.08, 0.16 + 0.04 * j[1]))
    return [Part(join(bow, box(p, 0.35, 0.0, 0.6, 0.1), teeth), 0, True)]


def _umbrella(p: Plane, j: Jitter) -> list[Part]:
    w = 0.9 + 0.06 * j[0]
    scallops = [circle(p, k * w / 1.5, 0.08, 0.36 * w) for k in (-1, 0, 1)]
    canopy = cut(circle(p, 0, 0, w), box(p, 0, 0.96, 1.3, 0.9), *scallops)
    hook = cut(ring(p, 0.17, 0.75, 0.17, 0.11), box(p, 0.17, 0.55, 0.4, 0.2))
    return [
        Part(join(box(p, 0, 0.1, 0.055, 0.66), hook), 1),
        Part(canopy, 0, True),
        Part(box(p, 0, -0.95, 0.04, 0.1), 1),
    ]


def _chair(p: Plane, j: Jitter) -> list[Part]:
    seat = 0.12 + 0.08 * j[0]
    legs = join(box(p, -0.48, 0.5, 0.075, 0.45), box(p, 0.48, 0.5, 0.075, 0.45))
    back = join(box(p, -0.48, -0.4, 0.075, 0.55), box(p, -0.2, -0.4, 0.05, 0.5), box(p, -0.34, -0.85, 0.2, 0.09))
    return [Part(legs, 1), Part(back, 1), Part(box(p, 0, seat, 0.62, 0.12), 0, True)]


def _hammer(p: Plane, j: Jitter) -> list[Part]:
    head = join(box(p, 0.1, -0.62, 0.36, 0.2), polygon(p, (-0.26, -0.8), (-0.26, -0.44), (-0.75, -0.6)))
    face = box(p, 0.52 + 0.04 * j[0], -0.62, 0.1, 0.27)
    return [Part(box(p, 0.08, 0.2, 0.1 + 0.02 * j[1], 0.78), 1, True), Part(head, 0), Part(face, 2)]


def _ladder(p: Plane, j: Jitter) -> list[Part]:
    w = 0.4 + 0.06 * j[0]
    rails = join(box(p, -w, 0, 0.08, 0.98), box(p, w, 0, 0.08, 0.98))
    rungs = join(*(box(p, 0, y, w, 0.065) for y in (-0.72, -0.36, 0.0, 0.36, 0.72)))
    return [Part(rungs, 1), Part(rails, 0)]


def _butterfly(p: Plane, j: Jitter) -> list[Part]:
    mirrored = Plane(abs(p.u), p.v)
    wings = join(ellipse(mirrored, 0.48, -0.35, 0.44, 0.42 + 0.05 * j[0]), ellipse(mirrored, 0.4, 0.38, 0.34, 0.36))
    spots = join(circle(mirrored, 0.52, -0.36, 0.17), circle(mirrored, 0.42, 0.4, 0.12))
    feelers = capsule(mirrored, (0.03, -0.5), (0.25, -0.95), 0.045)
    return [Part(wings, 0, True), Part(spots, 2), Part(feelers, 1), Part(ellipse(p, 0, 0, 0.1, 0.65), 1)]


def _flower(p: Plane, j: Jitter) -> list[Part]:
    r = 0.23 + 0.03 * j[0]
    petals = [circle(p, 0.4 * c, 0.4 * s - 0.35, r) for c, s in (unit(k / 6) for k in range(6))]
    leaf = ellipse(p, 0.25 if j[1] > 0 else -0.25, 0.62, 0.25, 0.12)
    return [
        Part(box(p, 0, 0.55, 0.06, 0.45), 1),
        Part(leaf, 1),
        Part(join(*petals), 0, True),
        Part(circle(p, 0, -0.35, 0.24), 2),
    ]


def _gear(p: Plane, j: Jitter) -> list[Part]:
    rays = [unit(k / 8) for k in range(8)]
    teeth = [capsule(p, (0.5 * c, 0.5 * s), (0.82 * c, 0.82 * s), 0.13) for c, s in rays]
    body = join(circle(p, 0, 0, 0.66), *teeth)
    return [Part(cut(body, circle(p, 0, 0, 0.28 + 0.06 * j[0])), 0, True)]


def _clock(p: Plane, j: Jitter) -> list[Part]:
    a, b = unit(0.5 + 0.5 * j[0]), unit(0.5 + 0.5 * j[1])
    hands = join(
        capsule(p, (0, 0), (0.52 * a[0], 0.52 * a[1]), 0.06), capsule(p, (0, 0), (0.34 * b[0], 0.34 * b[1]), 0.07)
    )
    bells = join(circle(p, -0.5, -0.75, 0.2), circle(p, 0.5, -0.75, 0.2))
    feet = join(capsule(p, (-0.4, 0.6), (-0.6, 0.95), 0.08), capsule(p, (0.4, 0.6), (0.6, 0.95), 0.08))
    return [
        Part(join(bells, feet), 1),
        Part(circle(p, 0, 0, 0.78), 0, True),
        Part(circle(p, 0, 0, 0.6), 2),
        Part(hands, 3),
    ]


def _rocket(p: Plane, j: Jitter) -> list[Part]:
    w = 0.3 + 0.04 * j[0]
    fins = polygon(p, (0, 0.05), (0.68, 0.62), (0.68, 0.78), (-0.68, 0.78), (-0.68, 0.62))
    flame = polygon(p, (-0.2, 0.68), (0.2, 0.68), (0, 1.0))
    hull = cut(ellipse(p, 0, -0.1, w + 0.04, 0.88), box(p, 0, 1.0, 1, 0.33))
    nose = cut(ellipse(p, 0, -0.1, w + 0.04, 0.88), box(p, 0, 0.45, 1, 1.0))
    return [Part(flame, 3), Part(fins, 1), Part(hull, 0, True), Part(nose, 1), Part(circle(p, 0, -0.25, 0.15), 2)]


def _glasses(p: Plane, j: Jitter) -> list[Part]:
    r = 0.36 + 0.04 * j[0]
    rims = join(ring(p, -0.48, 0.1, r, 0.13), ring(p, 0.48, 0.1, r, 0.13))
    arms = join(capsule(p, (-0.85, -0.02), (-0.98, -0.45), 0.06), capsule(p, (0.85, -0.02), (0.98, -0.45), 0.06))
    lenses = join(circle(p, -0.48, 0.1, r), circle(p, 0.48, 0.1, r))
    return [Part(lenses, 2), Part(join(rims, arms, box(p, 0, 0.0, 0.14, 0.065)), 0)]


def _anchor(p: Plane, j: Jitter) -> list[Part]:
    bowl = cut(ring(p, 0, 0.15, 0.68 + 0.04 * j[0], 0.17), box(p, 0, -0.45, 1.2, 0.75))
    tips = join(
        polygon(p, (-0.95, 0.32), (-0.7, 0.02), (-0.45, 0.35)), polygon(p, (0.45, 0.35), (0.7, 0.02), (0.95, 0.32))
    )
    stock = join(box(p, 0, 0.08, 0.085, 0.76), box(p, 0, -0.36, 0.4, 0.08))
    return [Part(join(bowl, tips, stock, ring(p, 0, -0.78, 0.17, 0.11)), 0, True)]


def _snowman(p: Plane, j: Jitter) -> list[Part]:
    r = 0.36 + 0.04 * j[0]
    body = join(circle(p, 0, 0.52, 0.46), circle(p, 0, -0.12, r))
    face = join(circle(p, -0.09, -0.58, 0.045), circle(p, 0.09, -0.58, 0.045))
    arms = join(capsule(p, (-0.3, -0.15), (-0.82, -0.4), 0.05), capsule(p, (0.3, -0.15), (0.82, -0.4), 0.05))
    hat = join(box(p, 0, -0.76, 0.36, 0.05), box(p, 0, -0.9, 0.21, 0.13))
    return [Part(arms, 1), Part(body, 0, True), Part(circle(p, 0, -0.52, 0.26), 0), Part(face, 3), Part(hat, 1)]


def _egg(p: Plane, j: Jitter) -> list[Part]:
    w = 0.66 + 0.06 * j[0]
    low = ellipse(p, 0, 0.15, w, 0.66)
    high = ellipse(p, 0, 0.1, w, 0.95)
    lower_half = box(p, 0, 1.15, 2, 1.0)
    return [Part(join(cut(high, lower_half), low), 0, True)]


BUILDERS: dict[str, Builder] = {
    "anchor": _anchor, "boat": _boat, "bottle": _bottle, "butterfly": _butterfly, "car": _car, "chair": _chair,
    "clock": _clock, "cup": _cup, "egg-checked": _egg, "egg-spotted": _egg, "egg-striped": _egg, "fir": _fir,
    "fish": _fish, "flower": _flower, "gear": _gear, "glasses": _glasses, "hammer": _hammer, "house": _house,
    "key": _key, "ladder": _ladder, "mushroom": _mushroom, "rocket": _rocket, "snowman": _snowman,
    "umbrella": _umbrella,
}  # fmt: skip
CLASSES: tuple[str, ...] = tuple(BUILDERS)

FIXED_TEXTURE = {"egg-checked": "checks", "egg-spotted": "spots", "egg-striped": "stripes"}
"""Classes that are nothing but their texture; every other class draws its texture at random."""
