"""How much of the MAC saving becomes time: every method against unpatched vanilla, interleaved in one process.

    python benchmarks/efficiency.py                       # the table of docs/performance.md
    python benchmarks/efficiency.py --models vit_tiny_patch16_224 --repeats 40
    python benchmarks/efficiency.py --against ../old      # another checkout, old and new interleaved, nothing else

A second table has the two comparisons that need a finer look, in rounds of their own: CATIS beside ToMe, and r=0 beside
the model that catis was never put on.

The measuring is `catis.bench`'s: in each round every variant runs once, in random order, and a speed-up is the median
over rounds of vanilla's time over the variant's in the same round. `catis bench` also says why a row is slow.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from statistics import median

import timm
import torch
from against import HERE, Worker, check, seconds_of

import catis
from catis.bench import Protocol, Report, Settings, bench_model
from catis.bench.settings import Precision
from catis.bench.timing import paired_ratio, time_rounds
from catis.bench.variants import forward_step, shared_copy

METHODS = ("tome", "tofu", "pitome", "mctf", "catis")
MODELS = ("vit_base_patch16_224", "vit_small_patch16_224", "vit_tiny_patch16_224")


def report(name: str, batch: int, rs: list[int], methods: list[str], repeats: int) -> list[str]:
    """Rows of one model: vanilla, then CATIS at r=0, which runs the model's own forward, then the methods."""
    model = timm.create_model(name).eval()
    rows = []
    for timed in (
        bench(model, name, batch, [0], ["catis"], repeats),
        bench(model, name, batch, rs, methods, repeats),
    ):
        rows += [line(row) for row in timed.rows if row.method != "vanilla" or not rows]
    return rows


def bench(model: torch.nn.Module, name: str, batch: int, rs: list[int], methods: list[str], repeats: int) -> Report:
    settings = Settings(tuple(methods), tuple(rs), Protocol((batch,), rounds=repeats), causes=False)
    return bench_model(model, settings, name=name)


def line(row) -> str:
    return (
        f"| {row.model} | {row.infer_batch_size} | {row.method} | {row.r} | {row.p50_ms:.1f} | {row.gmacs_ratio:.2f} "
        f"| {row.speedup:.2f} ({row.speedup_low:.2f}-{row.speedup_high:.2f}) | {row.efficiency:.2f} |"
    )


def side_by_side(name: str, batch: int, r: int, repeats: int) -> list[str]:
    """Time of CATIS over ToMe's, and of a model with r=0 over that of the plain one, round by round."""
    model = timm.create_model(name).eval()
    size = model.pretrained_cfg["input_size"]
    images = torch.randn(batch, *size)
    models = {
        "vanilla": model,
        "r=0": catis.apply(shared_copy(model), "catis", r=0),
        "tome": catis.apply(shared_copy(model), "tome", r=r),
        "catis": catis.apply(shared_copy(model), "catis", r=r),
    }
    steps = {key: forward_step(variant, images, Precision()) for key, variant in models.items()}
    seconds = time_rounds(steps, repeats).seconds
    rows = []
    for slow, fast in (("catis", "tome"), ("r=0", "vanilla")):
        ratio = paired_ratio(seconds[slow], seconds[fast])
        amount = r if slow == "catis" else 0
        rows.append(
            f"| {name} | {batch} | {amount} | {slow} / {fast} | {ratio.median:.3f} ({ratio.low:.2f}-{ratio.high:.2f}) |"
        )
    return rows


def against(
    old: Path, names: list[str], batches: list[int], rs: list[int] | None, methods: list[str], rounds: int
) -> None:
    """Print the time of this checkout over that of an old one, with the compiled functions and without."""
    old = check(old)
    workers = {
        f"{age} {kind}": Worker(checkout, kind == "compiled")
        for age, checkout in (("old", old), ("new", HERE))
        for kind in ("compiled", "PyTorch")
    }
    print("| model | batch | method | r | run | old, ms | new, ms | new / old (quartiles) |")
    print("|---|---|---|---|---|---|---|---|")
    for batch in batches:
        for name in names:
            for method in methods:
                r = (rs or [13 if batch > 1 else 8])[0]
                case = {"model": name, "batch": batch, "method": method, "r": r}
                seconds = seconds_of(workers, case, rounds)
                for kind in ("compiled", "PyTorch"):
                    before, after = seconds[f"old {kind}"], seconds[f"new {kind}"]
                    ratio = paired_ratio(after, before)
                    times = f"{1e3 * median(before):.1f} | {1e3 * median(after):.1f}"
                    print(
                        f"| {name} | {batch} | {method} | {r} | {kind} | {times} "
                        f"| {ratio.median:.3f} ({ratio.low:.3f}-{ratio.high:.3f}) |",
                        flush=True,
                    )
    for worker in workers.values():
        worker.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", nargs="*", help="timm names; all of the table by default")
    parser.add_argument("--batch", type=int, nargs="*", default=[8, 1])
    parser.add_argument("-r", type=int, nargs="*", default=None)
    parser.add_argument("--methods", nargs="*", default=list(METHODS))
    parser.add_argument("--repeats", type=int, default=31)
    parser.add_argument("--against", type=Path, metavar="OLD", help="checkout to compare this one with")
    arguments = parser.parse_args()
    print(f"torch {torch.__version__}, {torch.get_num_threads()} threads, float32, {arguments.repeats} rounds")
    if arguments.against is not None:
        names = arguments.models or list(MODELS)
        return against(arguments.against, names, arguments.batch, arguments.r, arguments.methods, arguments.repeats)
    print("| model | batch | method | r | ms | MAC ratio | speed-up (quartiles) | efficiency |")
    print("|---|---|---|---|---|---|---|---|")
    for batch in arguments.batch:
        for name in arguments.models or MODELS:
            rs = arguments.r or ([13] if batch > 1 else [8, 13])
            print("\n".join(report(name, batch, rs, arguments.methods, arguments.repeats)), flush=True)
    print("\n| model | batch | r | times | median (quartiles) |\n|---|---|---|---|---|")
    for batch in arguments.batch:
        for name in arguments.models or MODELS:
            r = (arguments.r or [13 if batch > 1 else 8])[0]
            print("\n".join(side_by_side(name, batch, r, 3 * arguments.repeats)), flush=True)


if __name__ == "__main__":
    main()
