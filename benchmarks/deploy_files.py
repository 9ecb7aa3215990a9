"""The files that benchmarks/deploy.py times: made where they are missing, any time, on a busy machine too.

    python benchmarks/deploy_files.py --folder files            # exports, int8 files, compiled kernels
    python benchmarks/deploy_files.py --folder files --models vit_tiny_patch16_224 --no-kernels
    python benchmarks/deploy_files.py --folder files --minutes 15      # begin no kernel after these

A file is written beside its place and moved there when it is whole, so a run that was killed goes on where it was.
Weights are random and int8 is calibrated on noise, since only time counts here: `catis export` judges int8 by images.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable
from itertools import product
from pathlib import Path

import numpy as np
import torch

import catis
from catis.bench import Precision
from catis.bench.variants import compile_model, forward_step
from catis.export.onnx_file import convert
from catis.export.quantise import quantise_onnx, quantise_openvino
from catis.models import build_model

MODELS = ("vit_tiny_patch16_224", "vit_small_patch16_224", "vit_base_patch16_224")
VANILLA = "vanilla"
BUDGETS = (VANILLA, "0.65", "0.5")
BATCHES = (1, 8)


def reduced(name: str, method: str, budget: str) -> torch.nn.Module:
    """A model at a share of vanilla's multiply-adds."""
    torch.manual_seed(0)
    model = build_model(name).eval()
    return model if budget == VANILLA else catis.apply(model, method, budget=float(budget))


def files(name: str, method: str, budget: str, folder: Path) -> dict[str, Path]:
    """Where the float and the int8 files of one model are."""
    stem = folder / f"{name}-{method if budget != VANILLA else 'no'}-{budget}"
    return {"onnx": Path(f"{stem}.onnx"), "onnx int8": Path(f"{stem}.int8.onnx"), "ir int8": Path(f"{stem}.int8.xml")}


def make_files(name: str, method: str, budget: str, folder: Path) -> None:
    """Make those that are missing."""
    found = files(name, method, budget, folder)
    noise = [np.random.default_rng(0).normal(size=(1, 3, 224, 224)).astype(np.float32)] * 2
    _make(found["onnx"], lambda partial: convert(reduced(name, method, budget), partial))
    _make(found["onnx int8"], lambda partial: quantise_onnx(found["onnx"], partial, noise))
    _make(found["ir int8"], lambda partial: quantise_openvino(found["onnx"], partial, noise))


def _make(path: Path, write: Callable[[Path], object]) -> None:
    if path.exists():
        return
    print(f"writing {path.name}", flush=True)
    partial = path.with_name(f"partial-{path.name}")
    write(partial)
    if path.suffix == ".xml":
        partial.with_suffix(".bin").replace(path.with_suffix(".bin"))
    partial.replace(path)


def missing(models: tuple[str, ...], method: str, folder: Path) -> list[Path]:
    """Files that are not there yet."""
    wanted = [path for name in models for budget in BUDGETS for path in files(name, method, budget, folder).values()]
    return [path for path in wanted if not path.exists()]


def keep_kernels(folder: Path) -> None:
    """Let torch.compile keep its kernels in the folder; to be called before anything is compiled."""
    os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", str(folder / "inductor"))


def kernel_mark(name: str, method: str, budget: str, batch: int, threads: int, folder: Path) -> Path:
    """An empty file that says that the kernels of one model, budget and batch size are there."""
    return folder / f"{name}-{method}-{budget}-batch{batch}-threads{threads}.kernels"


def has_kernels(name: str, method: str, batch: int, threads: int, folder: Path) -> bool:
    """Whether every budget of a model has its kernels, so that timing need not wait for the compiler."""
    return all(kernel_mark(name, method, budget, batch, threads, folder).exists() for budget in BUDGETS)


def make_kernels(name: str, method: str, budget: str, batch: int, threads: int, folder: Path) -> None:
    """Compile once, so that the run that times finds the kernels."""
    mark = kernel_mark(name, method, budget, batch, threads, folder)
    if mark.exists():
        return
    print(f"compiling {name}, batch {batch}, {budget}", flush=True)
    torch.set_num_threads(threads)
    forward_step(compile_model(reduced(name, method, budget)), torch.randn(batch, 3, 224, 224), Precision())()
    mark.touch()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--models", nargs="+", default=MODELS)
    parser.add_argument("--method", default="catis")
    parser.add_argument("--threads", type=int, default=2, help="that the kernels will run with")
    parser.add_argument("--kernels", action=argparse.BooleanOptionalAction, default=True, help="torch.compile's too")
    parser.add_argument("--minutes", type=float, default=30.0, help="begin no kernel after these")
    args = parser.parse_args()
    args.folder.mkdir(parents=True, exist_ok=True)
    keep_kernels(args.folder)
    for name in args.models:
        for budget in BUDGETS:
            make_files(name, args.method, budget, args.folder)
    started = time.monotonic()
    for name, batch, budget in product(args.models if args.kernels else (), BATCHES, BUDGETS):
        if time.monotonic() - started > 60 * args.minutes:
            print(f"{args.minutes:g} minutes are over: no kernels from {name}, batch {batch}, {budget} on", flush=True)
            break
        make_kernels(name, args.method, budget, batch, args.threads, args.folder)


if __name__ == "__main__":
    main()
