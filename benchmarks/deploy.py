"""What a CPU user gets: runtimes x number formats x token budgets, timed in turns in one process.

    python benchmarks/deploy.py --prepare --folder files              # exports, int8 files, kernels: any time
    python benchmarks/deploy.py --folder files --output deploy.csv    # the table of docs/deploy.md, on a quiet machine
    ... --models vit_small_patch16_224 --batch 1                      # or a part of it, as often as needed
    python benchmarks/deploy.py --show deploy.csv                     # the tables of what was measured so far
    python benchmarks/deploy.py --quick                               # ViT-Ti without torch.compile, files included

Each model and batch size is written to the CSV as soon as it is measured, after what the file holds already.

Weights are random, which is as fast as trained ones. In each round every step runs once, in random order; a figure is
the median over rounds. The first table has milliseconds per image and the speed-up over vanilla of the same row; the
second whether the two savings multiply: int8 on a reduced model over float32 on vanilla, as a share of (int8 speed-up
of vanilla) x (MAC ratio). PyTorch has no int8 row: its own int8 is dynamic and for linear layers only (docs/export.md).
bfloat16 rows are there where the processor has it and a small model really runs: some virtual machines announce what
they refuse.
"""

from __future__ import annotations

import argparse
import csv
import os
import platform
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import torch

import catis
from catis.bench import Precision, paired_ratio, time_rounds
from catis.bench.variants import compile_model, forward_step
from catis.export.onnx_file import convert
from catis.export.quantise import quantise_onnx, quantise_openvino
from catis.export.runtimes import openvino_runner, ort_runner
from catis.models import build_model

MODELS = ("vit_tiny_patch16_224", "vit_small_patch16_224", "vit_base_patch16_224")
VANILLA = "vanilla"
KEY = ("model", "batch", "method", "runtime", "format", "budget")
PRODUCT = ("int8_speedup", "total_speedup", "share_of_product")
BUDGETS = (VANILLA, "0.65", "0.5")
FORMATS = {
    "torch": ("float32", "bfloat16"),
    "torch.compile": ("float32",),
    "onnxruntime": ("float32", "int8"),
    "openvino": ("float32", "bfloat16", "int8"),
}
HAS_BFLOAT16 = {
    "torch": "import torch; torch.nn.Linear(64, 64).bfloat16()(torch.zeros(64, 64, dtype=torch.bfloat16))",
    "openvino": "import sys; from pathlib import Path; import torch; "
    "from catis.export.runtimes import openvino_runner; "
    "openvino_runner(Path(sys.argv[1]), 2, 'bf16')(torch.zeros(1, 3, 224, 224))",
}


def reduced(name: str, method: str, budget: str) -> torch.nn.Module:
    """A model at a share of vanilla's multiply-adds."""
    torch.manual_seed(0)
    model = build_model(name).eval()
    return model if budget == VANILLA else catis.apply(model, method, budget=float(budget))


def files(name: str, method: str, budget: str, folder: Path) -> dict[str, Path]:
    """Float and int8 files of one model, made where they are missing; calibrated on noise, since only time counts."""
    stem = folder / f"{name}-{method if budget != VANILLA else 'no'}-{budget}"
    found = {"onnx": Path(f"{stem}.onnx"), "onnx int8": Path(f"{stem}.int8.onnx"), "ir int8": Path(f"{stem}.int8.xml")}
    if not found["onnx"].exists():
        print(f"exporting {stem.name}", flush=True)
        convert(reduced(name, method, budget), found["onnx"])
    noise = [np.random.default_rng(0).normal(size=(1, 3, 224, 224)).astype(np.float32)] * 2
    for key, quantise in (("onnx int8", quantise_onnx), ("ir int8", quantise_openvino)):
        if not found[key].exists():
            print(f"int8 of {stem.name} by {quantise.__name__}", flush=True)
            quantise(found["onnx"], found[key], noise)
    return found


def has_bfloat16(runtime: str, path: Path) -> bool:
    """Whether the processor has bfloat16 and it really runs, tried in a process of its own, which may die of it."""
    told = Path("/proc/cpuinfo")
    if told.exists() and "bf16" not in told.read_text():
        return False
    call = [sys.executable, "-c", HAS_BFLOAT16[runtime], str(path)]
    return subprocess.run(call, capture_output=True, check=False).returncode == 0


def steps_of(name: str, budget: str, batch: int, args: argparse.Namespace, bfloat16: dict[str, bool]):
    """(runtime, format) -> step of one model at one budget."""
    images = torch.randn(batch, 3, 224, 224)
    model, found = reduced(name, args.method, budget), files(name, args.method, budget, args.folder)
    steps = {("torch", "float32"): forward_step(model, images, Precision())}
    if bfloat16["torch"]:
        steps["torch", "bfloat16"] = forward_step(model, images, Precision(amp_dtype="bfloat16"))
    if not args.quick:
        steps["torch.compile", "float32"] = forward_step(compile_model(model), images, Precision())
    runners = {
        ("onnxruntime", "float32"): ort_runner(found["onnx"], args.threads),
        ("onnxruntime", "int8"): ort_runner(found["onnx int8"], args.threads),
        ("openvino", "float32"): openvino_runner(found["onnx"], args.threads),
        ("openvino", "int8"): openvino_runner(found["ir int8"], args.threads),
    }
    if bfloat16["openvino"]:
        runners["openvino", "bfloat16"] = openvino_runner(found["onnx"], args.threads, "bf16")
    return steps | {key: lambda run=run: run(images) for key, run in runners.items()}


def measure(name: str, batch: int, args: argparse.Namespace, bfloat16: dict[str, bool]) -> list[dict[str, object]]:
    """Rows of one model at one batch size."""
    steps = {
        (*key, budget): step
        for budget in BUDGETS
        for key, step in steps_of(name, budget, batch, args, bfloat16).items()
    }
    limit = args.seconds / len(steps)
    seconds = time_rounds(steps, args.rounds, max_seconds=limit, threads=args.threads).seconds
    macs = {budget: catis.gmacs(reduced(name, args.method, budget)) for budget in BUDGETS}
    rows = []
    for (runtime, kind, budget), times in seconds.items():
        ratio, speed = macs[VANILLA] / macs[budget], paired_ratio(seconds[runtime, kind, VANILLA], times)
        rows.append({
            "model": name, "batch": batch, "runtime": runtime, "format": kind, "budget": budget, "method": args.method,
            "ms_per_image": 1e3 * float(np.median(times)) / batch, "rounds": len(times), "mac_ratio": ratio,
            "speedup": speed.median, "low": speed.low, "high": speed.high, "efficiency": speed.median / ratio,
            **product(runtime, kind, budget, seconds, ratio),
        })  # fmt: skip
    return rows


def product(runtime: str, kind: str, budget: str, seconds: dict, ratio: float) -> dict[str, float]:
    """How much of (int8 speed-up of vanilla) x (MAC ratio) int8 on a reduced model reaches."""
    if kind != "int8":
        return dict.fromkeys(PRODUCT, "")
    plain = seconds[runtime, "float32", VANILLA]
    alone = paired_ratio(plain, seconds[runtime, kind, VANILLA]).median
    both = paired_ratio(plain, seconds[runtime, kind, budget]).median
    return dict(zip(PRODUCT, (alone, both, both / (alone * ratio)), strict=True))


def write(rows: list[dict[str, object]], path: Path) -> None:
    """Add rows to a CSV file, which gets its header with the first ones."""
    new = not path.exists() or not path.stat().st_size
    with path.open("a", newline="") as opened:
        writer = csv.DictWriter(opened, list(rows[0]))
        if new:
            writer.writeheader()
        writer.writerows(rows)


def read(path: Path) -> list[dict[str, object]]:
    """The rows of such a file; of a case that was measured twice, the later one."""
    with path.open(newline="") as opened:
        rows = [
            {key: value if key in KEY else float(value or "nan") for key, value in row.items()}
            for row in csv.DictReader(opened)
        ]
    return list({tuple(row[key] for key in KEY): row for row in rows}.values())


def show(rows: list[dict]) -> None:
    """Two tables: milliseconds and speed-ups, and whether int8 and fewer tokens multiply."""
    budgets = " | ".join(f"budget {budget}, ms | speed-up" for budget in BUDGETS[1:])
    print(f"\n| model | batch | method | runtime | format | vanilla, ms | {budgets} |")
    print("|---" * (6 + 2 * len(BUDGETS[1:])) + "|")
    table = {tuple(row[key] for key in KEY): row for row in rows}
    for *key, budget in table:
        if budget == VANILLA:
            some = [table[*key, one] for one in BUDGETS]
            cells = [f"{some[0]['ms_per_image']:.1f}"]
            cells += [
                f"{row['ms_per_image']:.1f} | {row['speedup']:.2f} (of {row['mac_ratio']:.2f})" for row in some[1:]
            ]
            print(f"| {' | '.join(map(str, key))} | {' | '.join(cells)} |")
    print("\n| model | batch | method | runtime | budget | int8 alone | int8 and reduced | share of the product |")
    print("|---" * 8 + "|")
    for row in rows:
        if row["format"] == "int8" and row["budget"] != VANILLA:
            start = " | ".join(str(row[key]) for key in KEY if key != "format")
            print(f"| {start} | {' | '.join(f'{row[key]:.2f}' for key in PRODUCT)} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", nargs="+", default=None)
    parser.add_argument("--batch", nargs="+", type=int, default=[1, 8])
    parser.add_argument("--method", default="catis")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=41, help="timed passes of each step, unless time runs out")
    parser.add_argument("--seconds", type=float, default=None, help="per model and batch; 80, or 20 with --quick")
    parser.add_argument(
        "--folder", type=Path, help="keep exported files and compiled kernels here, and use those there"
    )
    parser.add_argument("--prepare", action="store_true", help="only make the files in --folder")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--output", type=Path, help="CSV file that the rows are added to")
    parser.add_argument("--show", type=Path, metavar="CSV", help="print the tables of such a file, and measure nothing")
    args = parser.parse_args()
    if args.show:
        show(read(args.show))
        return
    models = args.models or (MODELS[:1] if args.quick else MODELS)
    args.seconds = args.seconds or (20.0 if args.quick else 80.0)
    torch.set_num_threads(args.threads)
    with tempfile.TemporaryDirectory() as scratch:
        args.folder = args.folder or Path(scratch)
        args.folder.mkdir(parents=True, exist_ok=True)
        os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", str(args.folder / "inductor"))
        run(models, args)


def run(models: tuple[str, ...], args: argparse.Namespace) -> None:
    made = {(name, budget): files(name, args.method, budget, args.folder) for name in models for budget in BUDGETS}
    bfloat16 = {runtime: has_bfloat16(runtime, made[models[0], VANILLA]["onnx"]) for runtime in HAS_BFLOAT16}
    print(f"{platform.processor() or platform.machine()}, {args.threads} threads, bfloat16: {bfloat16}", flush=True)
    rows: list[dict] = []
    for name in models:
        for batch in args.batch:
            if args.prepare:
                warm(name, batch, args)
                continue
            measured = measure(name, batch, args, bfloat16)
            print(f"measured {name}, batch {batch}: {measured[-1]['rounds']} rounds", flush=True)
            if args.output:
                write(measured, args.output)
            rows += measured
    if not args.prepare:
        show(read(args.output) if args.output else rows)


def warm(name: str, batch: int, args: argparse.Namespace) -> None:
    """Fill the cache of compiled kernels."""
    for budget in () if args.quick else BUDGETS:
        print(f"compiling {name}, batch {batch}, {budget}", flush=True)
        forward_step(compile_model(reduced(name, args.method, budget)), torch.randn(batch, 3, 224, 224), Precision())()


if __name__ == "__main__":
    main()
