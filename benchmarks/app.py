"""How long an answer of `catis app` takes, from the image to the HTML: wanted are 0.5 s for a ViT-Ti, 2 s for a ViT-B.

    python benchmarks/app.py                                  # on a machine that does nothing else; results/app.csv
    python benchmarks/app.py --models tiny-6 --answers 3 --out /tmp/app.csv

The weights are random (a zoo model has its own), the photo has 12 million pixels. The first answer of a model reads the
photo; the others are what a slider does. On a machine that does something else the figures mean nothing.
"""

import argparse
import csv
import statistics
import tempfile
import time
from pathlib import Path

import numpy as np
import torch
from PIL import Image

from catis.app.choices import Named, load_choices
from catis.app.desk import Desk
from catis.app.photos import Photo

WANTED = {"vit_tiny_patch16_224": 0.5, "vit_base_patch16_224": 2.0}
COLUMNS = ("model", "threads", "answers", "first_s", "median_s", "most_s", "wanted_s")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", default=",".join(WANTED))
    parser.add_argument("--answers", type=int, default=9)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--out", type=Path, default=Path("results/app.csv"))
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    names = given.models.split(",")
    desk = Desk(load_choices([Named(name) for name in names]), [])
    with tempfile.TemporaryDirectory() as folder:
        photo = draw(Path(folder) / "photo.jpg")
        rows = [row(name, seconds(desk, Photo(photo), name, given.answers), given.threads) for name in names]
    with given.out.open("w", newline="") as file:
        file.write("# command: python benchmarks/app.py\n")
        csv.writer(file).writerows([COLUMNS, *rows])


def draw(path: Path) -> Path:
    coarse = np.random.default_rng(0).integers(0, 256, (30, 40, 3), dtype=np.uint8)
    Image.fromarray(coarse).resize((4000, 3000)).save(path)
    return path


def seconds(desk: Desk, photo: Photo, name: str, answers: int) -> list[float]:
    """The first answer, then those of a slider that moves."""
    took = []
    for number in range(answers + 1):
        start = time.perf_counter()
        shown = desk.respond(photo, name, "catis", 0.4 + 0.05 * (number % 9), 6)
        took.append(time.perf_counter() - start)
        assert shown.answer is not None, shown.said
    return took


def row(name: str, took: list[float], threads: int) -> tuple[str | float, ...]:
    """A line of the file, which is printed too."""
    first, *others = took
    middle, most, wanted = statistics.median(others), max(others), WANTED.get(name)
    verdict = "" if wanted is None else f"; at most {wanted} s wanted: {'held' if middle <= wanted else 'MISSED'}"
    print(f"{name}: first {first:.2f} s, then {middle:.2f} s (most {most:.2f}){verdict}")
    return name, threads, len(others), round(first, 3), round(middle, 3), round(most, 3), wanted or ""


if __name__ == "__main__":
    main()
