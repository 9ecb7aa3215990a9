"""What `catis.calibrate` costs in vanilla passes over its images: `calibration_time.py --checkpoint FILE --images DIR`.

Vanilla is timed before and after each calibration, on the same images in batches of the same size. The time is that of
the whole call, reading of images apart.
"""

import argparse
import csv
import itertools
import time
from pathlib import Path

import torch

import catis
from catis import hosts
from catis.calibration.views import prepared_images
from catis.models.by_name import load_model

BATCH = 32


def seconds(work) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def vanilla_pass(model: torch.nn.Module, images: torch.Tensor) -> None:
    with torch.inference_mode():
        for batch in images.split(BATCH):
            model(batch)


def calibration(model: torch.nn.Module, images: torch.Tensor, budget: float) -> tuple[float, float]:
    """Seconds of a vanilla pass, the mean of one before and one after, and of the calibration."""
    before = seconds(lambda: vanilla_pass(model, images))
    with catis.applied(model, budget=budget):
        took = seconds(lambda: catis.calibrate(model, images, batch_size=BATCH))
    return (before + seconds(lambda: vanilla_pass(model, images))) / 2, took


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default="vit_base_patch16_224")
    parser.add_argument("--checkpoint", type=Path, required=True)
    parser.add_argument("--images", type=Path, required=True)
    parser.add_argument("-n", type=int, nargs="*", default=[64, 192])
    parser.add_argument("--budgets", type=float, nargs="*", default=[0.36, 0.5])
    parser.add_argument("--out", type=Path, default=Path("results/calibration-time.csv"))
    given = parser.parse_args()
    model = load_model(given.model, given.checkpoint).eval()
    images = prepared_images(model, given.images, hosts.find(model).preprocessing(), max(given.n))
    vanilla_pass(model, images[:BATCH])
    with given.out.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["model", "budget", "n", "vanilla_s", "calibration_s", "passes"])
        for budget, n in itertools.product(given.budgets, given.n):
            vanilla, took = calibration(model, images[:n], budget)
            row = [given.model, budget, n, round(vanilla, 2), round(took, 2), round(took / vanilla, 2)]
            print(*row, flush=True)
            writer.writerow(row)


if __name__ == "__main__":
    main()
