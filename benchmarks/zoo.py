"""Numbers of docs/zoo.md that no card has: speed of drawing, what the inserted blocks add, the weak classifier.

    python benchmarks/zoo.py                      # writes results/zoo.csv; some minutes on one core

Speed is in seconds of processor time, so other work on the machine hardly matters.
"""

import argparse
import csv
import time
from pathlib import Path

import torch
from timm.models.vision_transformer import VisionTransformer

from catis import zoo
from catis.zoo import weak

GROWN = {"tiny-12": ("tiny-6", 480), "tiny-24": ("tiny-12", 240)}
"""A deeper model, the one that it was grown from, and how many test images to judge by."""
DRAWN = 96
VALIDATION = 960


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--share", type=float, default=1.0, help="of the images, to try it out")
    parser.add_argument("--out", type=Path, default=Path("results/zoo.csv"))
    given = parser.parse_args()
    rows = [row for what in (drawing, inserted, weak_classifier) for row in what(given.share)]
    with given.out.open("w", newline="") as file:
        file.write("# command: python benchmarks/zoo.py\n")
        writer = csv.writer(file)
        writer.writerows([("what", "n", "value"), *rows])
    for what, n, value in rows:
        print(f"{what}: {value:.4g} (n={n})")


def drawing(share: float) -> list[tuple[str, int, float]]:
    """Images per second of one core."""
    rows, n = [], max(1, round(share * DRAWN))
    for view in ("clean", "hard"):
        pictures = zoo.dataset(view, split="test", n=n)
        pictures[0]  # what is made once is not counted
        start = time.process_time()
        for index in range(n):
            pictures[index]
        rows.append((f"{view} images per second", n, n / (time.process_time() - start)))
    return rows


def inserted(share: float) -> list[tuple[str, int, float]]:
    """Percent right of a grown model, and of the same without the blocks that growing inserted."""
    rows = []
    for name, (_, most) in GROWN.items():
        model, n = zoo.load(name), max(1, round(share * most))
        rows.append((f"{name}, % right", n, right(model, n)))
        model.blocks = torch.nn.Sequential(*list(model.blocks)[::2])  # an inserted block stands behind each old one
        rows.append((f"{name} without inserted blocks, % right", n, right(model, n)))
    return rows


@torch.no_grad()
def right(model: VisionTransformer, n: int) -> float:
    hits = [
        (model(images).argmax(-1) == labels).sum().item()
        for images, labels in zoo.dataset("clean", split="test", n=n).batches(48)
    ]
    return 100 * sum(hits) / n


def weak_classifier(share: float) -> list[tuple[str, int, float]]:
    """Percent of clean validation images that the classifier which chooses hard ones gets right."""
    n = max(1, round(share * VALIDATION))
    ranks = [weak.rank(*pair) for pair in zoo.dataset("clean", split="val", n=n)]
    return [("weak classifier, % right", n, 100 * sum(rank == 0 for rank in ranks) / n)]


if __name__ == "__main__":
    main()
