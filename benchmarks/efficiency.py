"""How much of the MAC saving becomes time: every method against unpatched vanilla, interleaved in one process.

    python benchmarks/efficiency.py                       # the table of docs/performance.md
    python benchmarks/efficiency.py --models vit_tiny_patch16_224 --repeats 40

In each round every variant runs once, in random order; a speed-up is the median over rounds of vanilla's time over the
variant's in the same round, so slow drift of a busy machine cancels. efficiency = speed-up / (vanilla MACs / its MACs).
"""

from __future__ import annotations

import argparse
import copy
import random
import statistics
import time

import timm
import torch

import catis

METHODS = ("tome", "tofu", "pitome", "mctf", "catis")
CASES = [("vit_base_patch16_224", 8), ("vit_small_patch16_224", 8), ("vit_tiny_patch16_224", 8)]
SINGLE = [("vit_base_patch16_224", 1), ("vit_small_patch16_224", 1), ("vit_tiny_patch16_224", 1)]


def variants(name: str, rs: list[int], methods: list[str]) -> dict[tuple[str, int], torch.nn.Module]:
    vanilla = timm.create_model(name).eval()
    table = {("vanilla", 0): vanilla, ("catis", 0): catis.apply(copy.deepcopy(vanilla), "catis", r=0)}
    for r in rs:
        for method in methods:
            table[method, r] = catis.apply(copy.deepcopy(vanilla), method, r=r)
    return table


Variant = tuple[str, int]


def rounds(table: dict[Variant, torch.nn.Module], batch: int, repeats: int) -> dict[Variant, list[float]]:
    images = torch.randn(batch, 3, 224, 224)
    times: dict[Variant, list[float]] = {key: [] for key in table}
    for number in range(repeats + 2):  # the first two rounds warm up
        for key in random.sample(list(table), len(table)):
            start = time.perf_counter()
            table[key](images)
            if number >= 2:
                times[key].append(time.perf_counter() - start)
    return times


def report(name: str, batch: int, rs: list[int], methods: list[str], repeats: int) -> list[str]:
    table = variants(name, rs, methods)
    times = rounds(table, batch, repeats)
    plain, full = times["vanilla", 0], catis.gmacs(table["vanilla", 0])
    rows = []
    for key, model in table.items():
        ratios = sorted(slow / fast for slow, fast in zip(plain, times[key], strict=True))
        speed, ratio = statistics.median(ratios), full / catis.gmacs(model)
        low, high = ratios[len(ratios) // 4], ratios[3 * len(ratios) // 4]
        cost = 1e3 * statistics.median(times[key])
        rows.append(
            f"| {name} | {batch} | {key[0]} | {key[1]} | {cost:.1f} | {ratio:.2f} | {speed:.2f} "
            f"({low:.2f}-{high:.2f}) | {speed / ratio:.2f} |"
        )
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", nargs="*", help="timm names; all of the table by default")
    parser.add_argument("--batch", type=int, nargs="*", default=[8, 1])
    parser.add_argument("-r", type=int, nargs="*", default=None)
    parser.add_argument("--methods", nargs="*", default=list(METHODS))
    parser.add_argument("--repeats", type=int, default=31)
    arguments = parser.parse_args()
    torch.set_grad_enabled(False)
    print(f"torch {torch.__version__}, {torch.get_num_threads()} threads, float32, {arguments.repeats} rounds")
    print("| model | batch | method | r | ms | MAC ratio | speed-up (quartiles) | efficiency |")
    print("|---|---|---|---|---|---|---|---|")
    for name, batch in [*CASES, *SINGLE]:
        if batch in arguments.batch and (not arguments.models or name in arguments.models):
            rs = arguments.r or ([13] if batch > 1 else [8, 13])
            print("\n".join(report(name, batch, rs, arguments.methods, arguments.repeats)), flush=True)


if __name__ == "__main__":
    main()
