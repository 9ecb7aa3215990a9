"""What a CPU user gets: runtimes x number formats x token budgets, timed in turns in one process.

    python benchmarks/deploy_files.py --folder files                          # first, any time: what is timed
    python benchmarks/deploy.py --folder files --output results/deploy.csv    # the table, on a quiet machine
    ... --models vit_small_patch16_224 --batch 1                              # or a part of it
    python benchmarks/deploy.py --show results/deploy.csv                     # the tables of what was measured so far

Each model and batch size is written to the CSV as soon as it is measured; those that the file holds already are not
measured again, so that a run that was killed goes on where it was.

In each round every step runs once, in random order; a figure is the median over rounds. The first tables have
milliseconds per image, and in brackets the speed-up over vanilla of the same row; the last whether the two savings
multiply: at batch 8 int8 on a reduced model over float32 on vanilla, as a share of (int8 speed-up of vanilla) x (MAC
ratio), at batch 1 how much faster it is than vanilla in int8. OpenVINO is told the batch when it loads a file.
PyTorch has no int8 row: its own int8 is dynamic and for linear layers only (docs/export.md). bfloat16 rows are there
where the processor has it and a small model really runs: some virtual machines announce what they refuse. torch.compile
rows are there where deploy_files.py has made the kernels.
"""

from __future__ import annotations

import argparse
import csv
import platform
import subprocess
import sys
from itertools import product as product_of
from pathlib import Path

import numpy as np
import torch
from deploy_files import BATCHES, BUDGETS, MODELS, VANILLA, files, has_kernels, keep_kernels, missing, reduced

import catis
from catis.bench import Precision, paired_ratio, time_rounds
from catis.bench.variants import compile_model, forward_step
from catis.export.runtimes import openvino_runner, ort_runner

KEY = ("model", "batch", "method", "runtime", "format", "budget")
SHORT = dict(zip(MODELS, ("ViT-Ti", "ViT-S", "ViT-B"), strict=True))
PRODUCT = ("int8_speedup", "total_speedup", "share_of_product")
HAS_BFLOAT16 = {
    "torch": "import torch; torch.nn.Linear(64, 64).bfloat16()(torch.zeros(64, 64, dtype=torch.bfloat16))",
    "openvino": "import sys; from pathlib import Path; import torch; "
    "from catis.export.runtimes import openvino_runner; "
    "openvino_runner(Path(sys.argv[1]), 2, 'bf16')(torch.zeros(1, 3, 224, 224))",
}


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
    if args.compile and has_kernels(name, args.method, batch, args.threads, args.folder):
        steps["torch.compile", "float32"] = forward_step(compile_model(model), images, Precision())
    runners = {
        ("onnxruntime", "float32"): ort_runner(found["onnx"], args.threads),
        ("onnxruntime", "int8"): ort_runner(found["onnx int8"], args.threads),
        ("openvino", "float32"): openvino_runner(found["onnx"], args.threads, batch=batch),
        ("openvino", "int8"): openvino_runner(found["ir int8"], args.threads, batch=batch),
    }
    if bfloat16["openvino"]:
        runners["openvino", "bfloat16"] = openvino_runner(found["onnx"], args.threads, "bf16", batch)
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


def product(runtime: str, kind: str, budget: str, seconds: dict, ratio: float) -> dict[str, object]:
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
    """The rows of such a file; none where there is none."""
    if not path.exists():
        return []
    lines = [line for line in path.read_text().splitlines() if not line.startswith("#")]
    return [
        {key: value if key in KEY else float(value or "nan") for key, value in row.items()}
        for row in csv.DictReader(lines)
    ]


def show(rows: list[dict]) -> None:
    """Milliseconds per image of each method's files, and whether int8 and fewer tokens multiply."""
    table = {tuple(row[key] for key in KEY): row for row in rows}
    for method in dict.fromkeys(row["method"] for row in rows):
        print(f"\n| ms per image, {method} | batch | runtime | format | vanilla | 0.65 | 0.5 |")
        print("|---" * 7 + "|")
        for model, batch, one, runtime, kind, budget in table:
            if (one, budget) == (method, VANILLA):
                some = [table[model, batch, one, runtime, kind, budget] for budget in BUDGETS]
                cells = [f"{row['ms_per_image']:.1f} ({row['speedup']:.2f})" for row in some[1:]]
                start = (SHORT[model], batch, runtime, kind, f"{some[0]['ms_per_image']:.1f}")
                print(f"| {' | '.join((*start, *cells))} |")
    print("\n| int8 x fewer tokens | runtime | int8 alone | batch 8: 0.65 | 0.5 | batch 1: 0.65 | 0.5 |")
    print("|---" * 7 + "|")
    for model, batch, method, runtime, kind, budget in table:
        if (batch, kind, budget) == ("8", "int8", VANILLA):
            print(f"| {SHORT[model]}, {method} | {runtime} | {' | '.join(products(table, model, method, runtime))} |")


def products(table: dict[tuple, dict], model: str, method: str, runtime: str) -> list[str]:
    """int8's own speed-up; shares of the product at batch 8; at batch 1 how much faster than vanilla in int8."""
    at = {
        (batch, budget): table.get((model, batch, method, runtime, "int8", budget))
        for batch, budget in product_of(("1", "8"), BUDGETS)
    }
    cells = [f"{at['8', VANILLA]['int8_speedup']:.2f}"]
    cells += [f"{at['8', budget]['share_of_product']:.2f}" for budget in BUDGETS[1:]]
    return cells + [f"{at['1', budget]['speedup']:.2f}" if at["1", budget] else "" for budget in BUDGETS[1:]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, help="what benchmarks/deploy_files.py made")
    parser.add_argument("--output", type=Path, help="CSV file that the rows are added to")
    parser.add_argument("--models", nargs="+", default=MODELS)
    parser.add_argument("--batch", nargs="+", type=int, default=BATCHES)
    parser.add_argument("--method", default="catis")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=41, help="timed passes of each step, unless time runs out")
    parser.add_argument("--seconds", type=float, default=80.0, help="per model and batch; three rounds run in any case")
    parser.add_argument("--compile", action=argparse.BooleanOptionalAction, default=True, help="torch.compile rows")
    parser.add_argument("--show", type=Path, metavar="CSV", help="print the tables of such a file, and measure nothing")
    args = parser.parse_args()
    if args.show:
        show(read(args.show))
        return
    if args.folder is None or args.output is None:
        parser.error("give --folder with the files to time, and --output FILE.csv for the rows")
    if absent := missing(args.models, args.method, args.folder):
        names = ", ".join(path.name for path in absent)
        parser.error(f"{names} not in {args.folder}: run benchmarks/deploy_files.py first")
    torch.set_num_threads(args.threads)
    keep_kernels(args.folder)
    run(args)


def run(args: argparse.Namespace) -> None:
    """Measure what the CSV does not hold yet, and show all that it holds then."""
    first = files(args.models[0], args.method, VANILLA, args.folder)["onnx"]
    bfloat16 = {runtime: has_bfloat16(runtime, first) for runtime in HAS_BFLOAT16}
    print(f"{platform.processor() or platform.machine()}, {args.threads} threads, bfloat16: {bfloat16}", flush=True)
    done = {(row["model"], row["batch"], row["method"]) for row in read(args.output)}
    for name in args.models:
        for batch in args.batch:
            if (name, str(batch), args.method) in done:
                print(f"{name}, batch {batch}: in {args.output} already", flush=True)
                continue
            measured = measure(name, batch, args, bfloat16)
            write(measured, args.output)
            print(f"{name}, batch {batch}: {measured[-1]['rounds']} rounds", flush=True)
    show(read(args.output))


if __name__ == "__main__":
    main()
