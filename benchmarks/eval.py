"""Measures what loading adds to evaluation: a whole `catis eval` pass over 1000 JPEGs against the forward passes alone.

    python benchmarks/eval.py --out results            # ViT-Ti, 2 threads

Images and weights come from the folder --assets (images/imagenet1000, weights); without it the JPEGs are generated and
the weights random. Both kinds of pass do the same arithmetic on the same batches and take turns, so that a busy machine
slows both; the first pass, which decodes and fills the cache, is timed apart.
"""

from __future__ import annotations

import argparse
import csv
import shlex
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import timm
import torch
from PIL import Image
from timm.data.imagenet_info import ImageNetInfo

import catis
from catis.evaluate import ImageCache, LoadedModel, evaluate_run, load
from catis.runs import DataSpec, ModelSpec, RunSpec

TARGET = 0.10


def main() -> None:
    arguments = parse()
    torch.set_num_threads(arguments.threads)
    with tempfile.TemporaryDirectory() as scratch:
        spec, where = case(arguments, Path(scratch))
        rows = measure(spec, ImageCache(Path(scratch) / "cache"), arguments)
    for row in rows:
        print(f"{row['pass']:<32} {row['seconds']:8.2f} s {row['images_per_second']:8.1f} images/s")
    forward, whole = (row["seconds"] for row in rows[1:3])
    over = whole / forward - 1
    print(f"{over:+.1%} over the forward time, at most {TARGET:+.0%} wanted: {'held' if over <= TARGET else 'MISSED'}")
    write(arguments.out / "eval-loading.csv", rows, where, over)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="vit_tiny_patch16_224")
    parser.add_argument("--assets", type=Path, default=Path("../shared/assets"))
    parser.add_argument("--images", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--out", type=Path, default=Path("results"))
    return parser.parse_args()


def case(arguments: argparse.Namespace, scratch: Path) -> tuple[RunSpec, str]:
    """The run, and what it runs on."""
    root, weights = arguments.assets / "images" / "imagenet1000", arguments.assets / "weights"
    checkpoint = weights / f"{arguments.model}.safetensors"
    if root.is_dir() and checkpoint.is_file():
        data, where = DataSpec("imagenet", str(root), arguments.images), f"{arguments.images} photographs of --assets"
        model = ModelSpec(arguments.model, str(checkpoint))
    else:
        data, where = DataSpec("imagenet", str(generate(scratch / "images", arguments.images))), "generated JPEGs"
        model = ModelSpec(arguments.model)
    return RunSpec(model, data, batch_size=arguments.batch_size), where


def generate(root: Path, n: int) -> Path:
    """Smooth noise as JPEGs of the size of the photographs, one class folder each."""
    rng = np.random.default_rng(0)
    for name in ImageNetInfo().label_names()[:n]:
        (root / name).mkdir(parents=True)
        coarse = Image.fromarray(rng.integers(0, 256, (24, 32, 3), dtype=np.uint8))
        coarse.resize((384, 288), Image.Resampling.BICUBIC).save(root / name / "0.jpg", quality=90)
    return root


def measure(spec: RunSpec, cache: ImageCache, arguments: argparse.Namespace) -> list[dict[str, Any]]:
    model = load(spec.model)
    first = timed(lambda: evaluate_run(spec, model=model, cache=cache, workers=arguments.threads))
    batches = inputs(spec, model, cache)
    forward, whole = [], []
    for _ in range(arguments.rounds):
        forward.append(timed(lambda: run_forward(model, batches)))
        whole.append(timed(lambda: evaluate_run(spec, model=model, cache=cache, workers=arguments.threads)))
    n = sum(len(batch) for batch in batches)
    named = {"first pass, decodes": [first], "forward passes alone": forward, "whole pass, from the cache": whole}
    return [
        {"pass": name, "seconds": round(statistics.median(seconds), 3), "best": round(min(seconds), 3),
         "images_per_second": round(n / statistics.median(seconds), 1), "rounds": len(seconds)}
        for name, seconds in named.items()
    ]  # fmt: skip


def inputs(spec: RunSpec, model: LoadedModel, cache: ImageCache) -> list[torch.Tensor]:
    images = model.images(spec, cache=cache)
    return [model.preprocessing.normalise(batch.pixels) for batch in images.batches(spec.batch_size)]


def run_forward(model: LoadedModel, batches: list[torch.Tensor]) -> None:
    with torch.inference_mode():
        for batch in batches:
            model.module(batch)


def timed(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def write(path: Path, rows: list[dict[str, Any]], where: str, over: float) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="") as file:
        file.write(f"# command: python {shlex.join(sys.argv)}\n")
        file.write(f"# catis {catis.__version__}, torch {torch.__version__}, timm {timm.__version__}; {where}\n")
        file.write(f"# over the forward time: {over:+.3f}\n")
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows(rows)


if __name__ == "__main__":
    main()
