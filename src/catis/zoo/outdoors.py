"""Object classes found outdoors, and the egg."""

from __future__ import annotations

from catis.zoo.sdf import Jitter, Part, Plane, box, capsule, circle, cut, ellipse, join, polygon, ring, unit


def car(p: Plane, j: Jitter) -> list[Part]:
    """Cabin with two windows, body, two wheels."""
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


def boat(p: Plane, j: Jitter) -> list[Part]:
    """Hull, mast and two sails."""
    top = -0.92 + 0.08 * j[0]
    hull = polygon(p, (-0.9, 0.35), (0.9, 0.35), (0.55, 0.8), (-0.55, 0.8))
    return [
        Part(box(p, 0, -0.25, 0.05, 0.65), 1),
        Part(polygon(p, (0.09, top), (0.75 + 0.08 * j[1], 0.22), (0.09, 0.22)), 2, True),
        Part(polygon(p, (-0.09, top + 0.2), (-0.09, 0.22), (-0.55, 0.22)), 3),
        Part(hull, 0),
    ]


def fish(p: Plane, j: Jitter) -> list[Part]:
    """Body, tail, fin, eye."""
    h = 0.42 + 0.06 * j[0]
    tail = cut(polygon(p, (0.4, 0.0), (0.98, -0.45), (0.98, 0.45)), circle(p, 1.1, 0.0, 0.25))
    fin = polygon(p, (-0.25, -h + 0.12), (0.05, -h - 0.28), (0.3, -h + 0.15))
    return [
        Part(join(tail, fin), 1),
        Part(ellipse(p, -0.17, 0, 0.75, h), 0, True),
        Part(circle(p, -0.58, -0.1, 0.11), 2),
        Part(circle(p, -0.58, -0.1, 0.05), 3),
    ]


def fir(p: Plane, j: Jitter) -> list[Part]:
    """Three tiers on a trunk."""
    w = 0.7 + 0.08 * j[0]
    tiers = join(
        polygon(p, (0, -0.98), (0.55 * w, -0.4), (-0.55 * w, -0.4)),
        polygon(p, (0, -0.65), (0.8 * w, 0.05), (-0.8 * w, 0.05)),
        polygon(p, (0, -0.3), (w, 0.6), (-w, 0.6)),
    )
    return [Part(box(p, 0, 0.75, 0.13, 0.23), 1), Part(tiers, 0, True)]


def mushroom(p: Plane, j: Jitter) -> list[Part]:
    """Spotted cap on a stalk."""
    w = 0.85 + 0.08 * j[0]
    cap = cut(ellipse(p, 0, 0.0, w, 0.75), box(p, 0, 0.58, 1.2, 0.5))
    dots = join(circle(p, -0.4, -0.2, 0.13), circle(p, 0.08, -0.45, 0.14), circle(p, 0.45, -0.15, 0.11))
    return [Part(ellipse(p, 0, 0.42, 0.27 + 0.05 * j[1], 0.52), 1), Part(cap, 0, True), Part(dots, 2)]


def butterfly(p: Plane, j: Jitter) -> list[Part]:
    """Four spotted wings, body, feelers."""
    mirrored = Plane(abs(p.u), p.v)
    wings = join(ellipse(mirrored, 0.48, -0.35, 0.44, 0.42 + 0.05 * j[0]), ellipse(mirrored, 0.4, 0.38, 0.34, 0.36))
    spots = join(circle(mirrored, 0.52, -0.36, 0.17), circle(mirrored, 0.42, 0.4, 0.12))
    feelers = capsule(mirrored, (0.03, -0.5), (0.25, -0.95), 0.045)
    return [Part(wings, 0, True), Part(spots, 2), Part(feelers, 1), Part(ellipse(p, 0, 0, 0.1, 0.65), 1)]


def flower(p: Plane, j: Jitter) -> list[Part]:
    """Six petals, heart, stem, one leaf."""
    r = 0.23 + 0.03 * j[0]
    petals = [circle(p, 0.4 * c, 0.4 * s - 0.35, r) for c, s in (unit(k / 6) for k in range(6))]
    leaf = ellipse(p, 0.25 if j[1] > 0 else -0.25, 0.62, 0.25, 0.12)
    return [
        Part(box(p, 0, 0.55, 0.06, 0.45), 1),
        Part(leaf, 1),
        Part(join(*petals), 0, True),
        Part(circle(p, 0, -0.35, 0.24), 2),
    ]


def rocket(p: Plane, j: Jitter) -> list[Part]:
    """Hull, nose, fins, porthole, flame."""
    w = 0.3 + 0.04 * j[0]
    fins = polygon(p, (0, 0.05), (0.68, 0.62), (0.68, 0.78), (-0.68, 0.78), (-0.68, 0.62))
    flame = polygon(p, (-0.2, 0.68), (0.2, 0.68), (0, 1.0))
    hull = cut(ellipse(p, 0, -0.1, w + 0.04, 0.88), box(p, 0, 1.0, 1, 0.33))
    nose = cut(ellipse(p, 0, -0.1, w + 0.04, 0.88), box(p, 0, 0.45, 1, 1.0))
    return [Part(flame, 3), Part(fins, 1), Part(hull, 0, True), Part(nose, 1), Part(circle(p, 0, -0.25, 0.15), 2)]


def anchor(p: Plane, j: Jitter) -> list[Part]:
    """Shank, stock, ring and two flukes."""
    bowl = cut(ring(p, 0, 0.15, 0.68 + 0.04 * j[0], 0.17), box(p, 0, -0.45, 1.2, 0.75))
    tips = join(
        polygon(p, (-0.95, 0.32), (-0.7, 0.02), (-0.45, 0.35)), polygon(p, (0.45, 0.35), (0.7, 0.02), (0.95, 0.32))
    )
    stock = join(box(p, 0, 0.08, 0.085, 0.76), box(p, 0, -0.36, 0.4, 0.08))
    return [Part(join(bowl, tips, stock, ring(p, 0, -0.78, 0.17, 0.11)), 0, True)]


def snowman(p: Plane, j: Jitter) -> list[Part]:
    """Three balls, hat, face, arms."""
    r = 0.36 + 0.04 * j[0]
    body = join(circle(p, 0, 0.52, 0.46), circle(p, 0, -0.12, r))
    face = join(circle(p, -0.09, -0.58, 0.045), circle(p, 0.09, -0.58, 0.045))
    arms = join(capsule(p, (-0.3, -0.15), (-0.82, -0.4), 0.05), capsule(p, (0.3, -0.15), (0.82, -0.4), 0.05))
    hat = join(box(p, 0, -0.76, 0.36, 0.05), box(p, 0, -0.9, 0.21, 0.13))
    return [Part(arms, 1), Part(body, 0, True), Part(circle(p, 0, -0.52, 0.26), 0), Part(face, 3), Part(hat, 1)]


def egg(p: Plane, j: Jitter) -> list[Part]:
    """Pointed ellipse; its texture is its class."""
    w = 0.66 + 0.06 * j[0]
    low = ellipse(p, 0, 0.15, w, 0.66)
    high = ellipse(p, 0, 0.1, w, 0.95)
    lower_half = box(p, 0, 1.15, 2, 1.0)
    return [Part(join(cut(high, lower_half), low), 0, True)]
