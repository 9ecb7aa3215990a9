"""Object classes found in a house."""

from __future__ import annotations

from catis.zoo.sdf import Jitter, Part, Plane, box, capsule, circle, cut, ellipse, join, polygon, ring, unit


def bottle(p: Plane, j: Jitter) -> list[Part]:
    """Shoulders, neck, cap, label."""
    w = 0.36 + 0.05 * j[0]
    neck = -0.35 + 0.08 * j[1]
    body = join(box(p, 0, 0.3, w, 0.65), ellipse(p, 0, neck, w, 0.3), box(p, 0, -0.6, 0.13, 0.35))
    return [Part(body, 0, True), Part(box(p, 0, 0.35, w, 0.24), 2), Part(box(p, 0, -0.92, 0.17, 0.09), 1)]


def chair(p: Plane, j: Jitter) -> list[Part]:
    """Side view: two legs, seat, barred back."""
    seat = 0.12 + 0.08 * j[0]
    legs = join(box(p, -0.48, 0.5, 0.075, 0.45), box(p, 0.48, 0.5, 0.075, 0.45))
    back = join(box(p, -0.48, -0.4, 0.075, 0.55), box(p, -0.2, -0.4, 0.05, 0.5), box(p, -0.34, -0.85, 0.2, 0.09))
    return [Part(legs, 1), Part(back, 1), Part(box(p, 0, seat, 0.62, 0.12), 0, True)]


def clock(p: Plane, j: Jitter) -> list[Part]:
    """Alarm clock: bells, feet, two hands."""
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


def cup(p: Plane, j: Jitter) -> list[Part]:
    """Tapered mug with a ring for a handle."""
    w = 0.55 + 0.08 * j[0]
    body = polygon(p, (-w, -0.7), (w, -0.7), (w - 0.12, 0.75), (0.12 - w, 0.75))
    return [
        Part(ring(p, w, 0.0, 0.36 + 0.05 * j[1], 0.15), 1),
        Part(body, 0, True),
        Part(ellipse(p, 0, -0.7, w, 0.14), 2),
    ]


def gear(p: Plane, j: Jitter) -> list[Part]:
    """Eight teeth around a hole."""
    rays = [unit(k / 8) for k in range(8)]
    teeth = [capsule(p, (0.5 * c, 0.5 * s), (0.82 * c, 0.82 * s), 0.13) for c, s in rays]
    body = join(circle(p, 0, 0, 0.66), *teeth)
    return [Part(cut(body, circle(p, 0, 0, 0.28 + 0.06 * j[0])), 0, True)]


def glasses(p: Plane, j: Jitter) -> list[Part]:
    """Two rims, a bridge, two arms."""
    r = 0.36 + 0.04 * j[0]
    rims = join(ring(p, -0.48, 0.1, r, 0.13), ring(p, 0.48, 0.1, r, 0.13))
    arms = join(capsule(p, (-0.85, -0.02), (-0.98, -0.45), 0.06), capsule(p, (0.85, -0.02), (0.98, -0.45), 0.06))
    lenses = join(circle(p, -0.48, 0.1, r), circle(p, 0.48, 0.1, r))
    return [Part(lenses, 2), Part(join(rims, arms, box(p, 0, 0.0, 0.14, 0.065)), 0)]


def hammer(p: Plane, j: Jitter) -> list[Part]:
    """Handle, head with a face and a wedge."""
    head = join(box(p, 0.1, -0.62, 0.36, 0.2), polygon(p, (-0.26, -0.8), (-0.26, -0.44), (-0.75, -0.6)))
    face = box(p, 0.52 + 0.04 * j[0], -0.62, 0.1, 0.27)
    return [Part(box(p, 0.08, 0.2, 0.1 + 0.02 * j[1], 0.78), 1, True), Part(head, 0), Part(face, 2)]


def house(p: Plane, j: Jitter) -> list[Part]:
    """Walls, roof, chimney, door and window."""
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


def key(p: Plane, j: Jitter) -> list[Part]:
    """Ring, shaft, two teeth."""
    bow = ring(p, -0.55, 0.0, 0.31 + 0.04 * j[0], 0.2)
    teeth = join(box(p, 0.82, 0.2, 0.08, 0.2), box(p, 0.55, 0.16, 0.08, 0.16 + 0.04 * j[1]))
    return [Part(join(bow, box(p, 0.35, 0.0, 0.6, 0.1), teeth), 0, True)]


def ladder(p: Plane, j: Jitter) -> list[Part]:
    """Two rails, five rungs."""
    w = 0.4 + 0.06 * j[0]
    rails = join(box(p, -w, 0, 0.08, 0.98), box(p, w, 0, 0.08, 0.98))
    rungs = join(*(box(p, 0, y, w, 0.065) for y in (-0.72, -0.36, 0.0, 0.36, 0.72)))
    return [Part(rungs, 1), Part(rails, 0)]


def umbrella(p: Plane, j: Jitter) -> list[Part]:
    """Scalloped canopy on a hooked stick."""
    w = 0.9 + 0.06 * j[0]
    scallops = [circle(p, k * w / 1.5, 0.08, 0.36 * w) for k in (-1, 0, 1)]
    canopy = cut(circle(p, 0, 0, w), box(p, 0, 0.96, 1.3, 0.9), *scallops)
    hook = cut(ring(p, 0.17, 0.75, 0.17, 0.11), box(p, 0.17, 0.55, 0.4, 0.2))
    return [
        Part(join(box(p, 0, 0.1, 0.055, 0.66), hook), 1),
        Part(canopy, 0, True),
        Part(box(p, 0, -0.95, 0.04, 0.1), 1),
    ]
