"""How much of the MAC saving becomes time: every method against unpatched vanilla, interleaved in one process.

    python benchmarks/efficiency.py                       # the table of docs/performance.md
    python benchmarks/efficiency.py --models vit_tiny_patch16_224 --repeats 40

The measuring is `catis.bench`'s: in each round every variant runs once, in random order, and a speed-up is the median
over rounds of vanilla's time over the variant's in the same round. `catis bench` also says why a row is slow.
"""

from __future__ import annotations

import argparse

import timm
import torch

from catis.bench import Protocol, Report, Settings, bench_model

METHODS = ("tome", "tofu", "pitome", "mctf", "catis")
MODELS = ("vit_base_patch16_224", "vit_small_patch16_224", "vit_tiny_patch16_224")


def report(name: str, batch: int, rs: list[int], methods: list[str], repeats: int) -> list[str]:
    """Rows of one model: vanilla, then CATIS at r=0, which runs the model's own forward, then the methods."""
    model = timm.create_model(name).eval()
    rows = []
    for found in (
        bench(model, name, batch, [0], ["catis"], repeats),
        bench(model, name, batch, rs, methods, repeats),
    ):
        rows += [line(row) for row in found.rows if row.method != "vanilla" or not rows]
    return rows


def bench(model: torch.nn.Module, name: str, batch: int, rs: list[int], methods: list[str], repeats: int) -> Report:
    settings = Settings(tuple(methods), tuple(rs), Protocol((batch,), rounds=repeats), causes=False)
    return bench_model(model, settings, name=name)


def line(row) -> str:
    return (
        f"| {row.model} | {row.infer_batch_size} | {row.method} | {row.r} | {row.p50_ms:.1f} | {row.gmacs_ratio:.2f} "
        f"| {row.speedup:.2f} ({row.speedup_low:.2f}-{row.speedup_high:.2f}) | {row.efficiency:.2f} |"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", nargs="*", help="timm names; all of the table by default")
    parser.add_argument("--batch", type=int, nargs="*", default=[8, 1])
    parser.add_argument("-r", type=int, nargs="*", default=None)
    parser.add_argument("--methods", nargs="*", default=list(METHODS))
    parser.add_argument("--repeats", type=int, default=31)
    arguments = parser.parse_args()
    print(f"torch {torch.__version__}, {torch.get_num_threads()} threads, float32, {arguments.repeats} rounds")
    print("| model | batch | method | r | ms | MAC ratio | speed-up (quartiles) | efficiency |")
    print("|---|---|---|---|---|---|---|---|")
    for batch in arguments.batch:
        for name in arguments.models or MODELS:
            rs = arguments.r or ([13] if batch > 1 else [8, 13])
            print("\n".join(report(name, batch, rs, arguments.methods, arguments.repeats)), flush=True)


if __name__ == "__main__":
    main()
