"""The 24 object classes: each is a short list of parts, built from signed-distance primitives.

No class owns a colour. Many share a part (rings, discs, bars, triangles) and three share one silhouette
and differ only in texture, so a classifier has to see shape, arrangement of parts, and texture.
"""

from __future__ import annotations

from catis.zoo import household, outdoors
from catis.zoo.sdf import Builder

BUILDERS: dict[str, Builder] = {
    "anchor": outdoors.anchor, "boat": outdoors.boat, "bottle": household.bottle, "butterfly": outdoors.butterfly,
    "car": outdoors.car, "chair": household.chair, "clock": household.clock, "cup": household.cup,
    "egg-checked": outdoors.egg, "egg-spotted": outdoors.egg, "egg-striped": outdoors.egg, "fir": outdoors.fir,
    "fish": outdoors.fish, "flower": outdoors.flower, "gear": household.gear, "glasses": household.glasses,
    "hammer": household.hammer, "house": household.house, "key": household.key, "ladder": household.ladder,
    "mushroom": outdoors.mushroom, "rocket": outdoors.rocket, "snowman": outdoors.snowman,
    "umbrella": household.umbrella,
}  # fmt: skip
CLASSES: tuple[str, ...] = tuple(BUILDERS)

FIXED_TEXTURE = {"egg-checked": "checks", "egg-spotted": "spots", "egg-striped": "stripes"}
"""Classes that are nothing but their texture; every other class draws its texture at random."""
