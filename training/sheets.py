"""Contact sheets for docs/zoo.md: all classes, and one row of scenes in every view."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw

from catis import zoo
from catis.data.corruptions import CORRUPTIONS
from catis.zoo.objects import CLASSES

OUT = Path(__file__).parents[1] / "docs/img"
TILE = 96
CAPTION = 14


def tile(image: np.ndarray, text: str) -> Image.Image:  # type: ignore[type-arg]
    """One picture with its name under it."""
    out = Image.new("RGB", (TILE + 4, TILE + CAPTION), "white")
    out.paste(Image.fromarray(image), (2, 0))
    ImageDraw.Draw(out).text((4, TILE), text, fill="black")
    return out


def sheet(tiles: list[Image.Image], columns: int, name: str) -> None:
    """Lay tiles out in rows and save them."""
    rows = -(-len(tiles) // columns)
    out = Image.new("RGB", (columns * (TILE + 4), rows * (TILE + CAPTION)), "white")
    for i, one in enumerate(tiles):
        out.paste(one, (i % columns * (TILE + 4), i // columns * (TILE + CAPTION)))
    out.quantize(256).save(OUT / name, optimize=True)


def main() -> None:
    """Write docs/img/zoo-classes.png, zoo-views.png and zoo-corrupted.png."""
    OUT.mkdir(parents=True, exist_ok=True)
    clean = zoo.dataset("clean", n=48)
    sheet([tile(clean[i][0], CLASSES[i % 24]) for i in range(48)], 12, "zoo-classes.png")
    views = ("clean", "hard", "renditions", "sketch")
    tiles = [tile(zoo.dataset(v, n=60)[i][0], f"{v} {CLASSES[i % 24]}"[:16]) for v in views for i in range(24, 36)]
    sheet(tiles, 12, "zoo-views.png")
    house = CLASSES.index("house")
    tiles = [
        tile(zoo.dataset("corrupted", n=24, corruption=c, severity=s)[house][0], f"{c[:13]} {s}")
        for s in (1, 3, 5)
        for c in CORRUPTIONS
    ]
    sheet(tiles, 15, "zoo-corrupted.png")


if __name__ == "__main__":
    main()
