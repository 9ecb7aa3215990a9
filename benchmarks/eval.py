"""Measures what loading adds to evaluation: a whole `catis eval` pass over 1000 JPEGs against the forward passes alone.

    python benchmarks/eval.py --out results            # ViT-Ti, 2 threads

Images and weights come from the folder --assets (images/imagenet1000, weights); without it the JPEGs are generated and
the weights random. The first pass decodes and fills the cache. In each later pass the time inside the model is taken
by hooks: what the pass takes beyond it is the figure, and a machine that is busy slows both. Forward passes on batches
that lie ready in memory, which take turns with these, are the check that the hooks tell the truth.
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
    over = rows[1]["over_forward"]
    print(f"{over:+.1%} over the forward time, at most {TARGET:+.0%} wanted: {'held' if over <= TARGET else 'MISSED'}")
    write(arguments.out / "eval-loading.csv", rows, where)


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
    inside = Inside(model.module)

    def whole() -> tuple[float, float]:
        inside.seconds = 0.0
        seconds = timed(lambda: evaluate_run(spec, model=model, cache=cache, workers=arguments.threads))
        return seconds, inside.seconds

    first = whole()
    batches = inputs(spec, model, cache)
    passes, alone = [], []
    for _ in range(arguments.rounds):
        passes.append(whole())
        alone.append(timed(lambda: run_forward(model, batches)))
    n = sum(len(batch) for batch in batches)
    return [row("first pass, decodes", n, [first]), row("whole pass, from the cache", n, passes),
            row("forward passes alone", n, [(seconds, seconds) for seconds in alone])]  # fmt: skip


class Inside:
    """Adds up the time that a model spends in its forward passes."""

    def __init__(self, model: torch.nn.Module) -> None:
        self.seconds, self._started = 0.0, 0.0
        model.register_forward_pre_hook(self._start)
        model.register_forward_hook(self._stop)

    def _start(self, *_: Any) -> None:
        self._started = time.perf_counter()

    def _stop(self, *_: Any) -> None:
        self.seconds += time.perf_counter() - self._started


def row(name: str, n: int, passes: list[tuple[float, float]]) -> dict[str, Any]:
    """Medians over passes of (seconds, seconds inside the model)."""
    seconds = statistics.median(whole for whole, _ in passes)
    return {
        "pass": name,
        "seconds": round(seconds, 3),
        "inside_forward": round(statistics.median(inside for _, inside in passes), 3),
        "over_forward": round(statistics.median(whole / inside - 1 for whole, inside in passes), 4),
        "images_per_second": round(n / seconds, 1),
        "passes": len(passes),
    }


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


def write(path: Path, rows: list[dict[str, Any]], where: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="") as file:
        file.write(f"# command: python {shlex.join(sys.argv)}\n")
        file.write(f"# catis {catis.__version__}, torch {torch.__version__}, timm {timm.__version__}; {where}\n")
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows(rows)


if __name__ == "__main__":
    main()
