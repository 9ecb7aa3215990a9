"""Does triage help once the schedule is right? `triage.py ASSETS RECIPE --model NAME --budget B --out CSV`.

Tokens kept per block, input size, gain and softness of a tuned recipe, with every method in place of its own, and with
CATIS' signals and strategies; without calibrated weights, which belong to one method. Images as in `tuned.py`: the
second half judges, differences are from CATIS as it is by default.
"""

import argparse
import csv
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from levers import show
from tuned import COLUMNS, against, interval, judged, right

from catis.core.method import Method
from catis.core.reduction import Reduction
from catis.recipes import load_recipe
from catis.registry import create_method
from catis.tuning.at_budget import macs_of

SIGNALS = ("cls", "nf", "l2", "euclidean")
STRATEGIES = ("evict", "merge", "global")


def methods(thetas: list[tuple[str, Path]]) -> Iterator[tuple[str, Method]]:
    """CATIS by default first, then Theta from recipes, signals, strategies, weights in a group, the other methods."""
    yield "catis", create_method("catis")
    for name, recipe in thetas:
        yield f"catis, {name}", load_recipe(recipe).reduction.method
    for signal in SIGNALS:
        yield f"catis, signal {signal}", create_method("catis", signal=signal)
    for strategy in STRATEGIES:
        yield f"catis, strategy {strategy}", create_method("catis", strategy=strategy)
    yield "catis, pooling attention", create_method("catis", pooling="attention")
    for name in ("tome", "tofu", "pitome", "mctf", "cluster"):
        yield name, create_method(name)


RESTORED = ("catis", "tome", "mctf")
"""Methods that are also looked at with restored norms, which cluster has by itself."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("assets", type=Path)
    parser.add_argument("recipe", type=Path)
    parser.add_argument("--model", required=True)
    parser.add_argument("--budget", type=float, required=True)
    parser.add_argument("--theta", action="append", nargs=2, default=[], metavar=("NAME", "RECIPE"))
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--only", nargs="*", help="only these rows; catis always")
    parser.add_argument("--bfloat16", action="store_true", help="compute in bfloat16, all rows alike")
    parser.add_argument("--show", action="store_true", help="print the table of docs/tuning.md, measure nothing")
    given = parser.parse_args()
    if given.show:
        show(given.out, "catis")
        return
    handle, inputs, labels = judged(given.assets, given.model, "clean")
    whole = right(handle.model, inputs, labels, given.bfloat16)
    reduction = load_recipe(given.recipe).reduction
    first, vanilla = None, macs_of(handle, Reduction.none())
    with given.out.open("a", newline="") as file:
        writer = csv.writer(file)
        if not file.tell():
            writer.writerow([name.replace("smaller", "catis") for name in COLUMNS])
        depth = handle.facts.depth
        gains = tuple(reduction.gain(block, depth) for block in range(depth))  # of the recipe, whatever a method's own
        reduction = replace(reduction, restore_norm=None, size_gain=gains, soften=reduction.softens(0))
        forms = [
            (what, method, reduction) for what, method in methods([(name, Path(path)) for name, path in given.theta])
        ]
        restored = replace(reduction, restore_norm=True)
        forms += [(f"{name}, norms restored", create_method(name), restored) for name in RESTORED]
        for what, method, base in forms:
            if given.only and what not in ("catis", *given.only):
                continue
            made = handle.bind(replace(base, method=method))
            with handle.installed(made):
                own = right(handle.model, inputs, labels, given.bfloat16)
            first = own if first is None else first
            share = round(macs_of(handle, made) / vanilla, 4)
            row = [given.model, given.budget, "clean", what, share, len(own), *interval(own)]
            row += [round(100 * float(own.float().mean() / whole.float().mean()), 1), *against(own, first)]
            row += ["bfloat16" if given.bfloat16 else "float32"]
            print(*row, flush=True)
            writer.writerow(row)


if __name__ == "__main__":
    main()
