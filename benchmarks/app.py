"""How long an answer of `catis app` takes, from the image to the HTML: wanted are 0.5 s for a ViT-Ti, 2 s for a ViT-B.

    python benchmarks/app.py [--models vit_tiny_patch16_224,vit_base_patch16_224] [--answers 9]

The weights are random, the photo has 12 million pixels. The first answer of a model reads the photo; the others are
what a slider does. On a machine that does something else the figures mean nothing.
"""

import argparse
import statistics
import tempfile
import time
from pathlib import Path

import numpy as np
from PIL import Image

from catis.app.choices import Named, load_choices
from catis.app.desk import Desk
from catis.app.photos import Photo


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", default="vit_tiny_patch16_224,vit_base_patch16_224")
    parser.add_argument("--answers", type=int, default=9)
    given = parser.parse_args()
    names = given.models.split(",")
    desk = Desk(load_choices([Named(name) for name in names]), [])
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "photo.jpg"
        coarse = np.random.default_rng(0).integers(0, 256, (30, 40, 3), dtype=np.uint8)
        Image.fromarray(coarse).resize((4000, 3000)).save(path)
        for name in names:
            photo, seconds = Photo(path), []
            for number in range(given.answers + 1):
                start = time.perf_counter()
                assert desk.respond(photo, name, "catis", 0.4 + 0.05 * (number % 9), 6).answer is not None
                seconds.append(time.perf_counter() - start)
            first, *others = seconds
            print(f"{name}: first {first:.2f} s, then {statistics.median(others):.2f} s (most {max(others):.2f})")


if __name__ == "__main__":
    main()
