"""What each lever of `catis tune` is worth: `levers.py ASSETS RECIPE --model NAME --budget B --out CSV [--show]`.

A tuned recipe is taken apart and put together again, one lever more at a time; the controls are calibrated too.

The images and their halves are those of `tuned.py`: the first half calibrates, the second judges.
"""

import argparse
import csv
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from tuned import COLUMNS, NAMES, against, batches, halves, interval, judged, right

from catis import hosts
from catis.calibration.run import calibrated_weights
from catis.calibration.views import views
from catis.core.reduction import Reduction
from catis.hosts.correction import Correction
from catis.recipes import load_recipe
from catis.registry import create_method
from catis.tuning.at_budget import macs_of
from catis.tuning.candidates import SAME_SHARE, Candidate, Space
from catis.tuning.controls import constant_r, controls_at

HELD_OUT = 100
PLAIN: dict[str, Any] = {"gain": (1.0, 1.0), "soften": 0.0}
"""The size term as ToMe has it, and attention as it is."""


def steps(handle: hosts.Handle, recipe: Reduction, budget: float) -> Iterator[tuple[str, Reduction]]:
    """From constant r to the tuned recipe, one lever more at a time, each at the budget."""
    space, method = Space(handle, budget), recipe.method
    base = create_method(method.name)
    bare = Candidate(method.name, shape=SAME_SHARE, restore_norm=False, **PLAIN)
    own = replace(bare, restore_norm=recipe.restore_norm)
    yield "ToMe, constant r", constant_r(handle, budget, create_method("tome"))
    yield "ToMe, same share", space.reduction(Candidate("tome", shape=SAME_SHARE))
    yield f"operator: {method.name}", space.reduction(bare)
    alike = space.reduction(own)
    if alike.restores_norm(0):
        yield "norms restored", alike
    if method != base:
        yield "options and weights of the method", replace(alike, method=method)
    if recipe.input_size is not None:
        yield "input size", replace(space.reduction(replace(own, size=recipe.input_size)), method=method)
    shaped = replace(own, size=recipe.input_size, kept=tuple(space.counts(recipe)))
    yield "tokens kept per block", replace(space.reduction(shaped), method=method)
    yield "gain of the size term, softer attention", recipe


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("assets", type=Path)
    parser.add_argument("recipe", type=Path)
    parser.add_argument("--model", required=True)
    parser.add_argument("--budget", type=float, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--only", nargs="*", help="only these rows")
    parser.add_argument("--show", action="store_true", help="print the table of docs/tuning.md, measure nothing")
    given = parser.parse_args()
    if given.show:
        show(given.out, "smaller image")
        return
    handle, inputs, labels = judged(given.assets, given.model, "clean")
    recipe, preprocessing = load_recipe(given.recipe), handle.preprocessing()
    fit = halves(given.assets / "images" / "imagenet1000")[0]
    prepared = torch.cat(list(batches(fit, preprocessing, None)))
    seen = list(views(prepared[:-HELD_OUT], preprocessing, 32, held_out=prepared[-HELD_OUT:]))
    forms = [("vanilla", Reduction.none(), None)]
    forms += [(what, made, None) for what, made in steps(handle, recipe.reduction, given.budget)]
    forms += [("calibration: all of catis tune", recipe.reduction, recipe.correction)]
    controls = controls_at(handle, given.budget)
    controls["constant r, mctf"] = constant_r(handle, given.budget, create_method("mctf"))
    controls["same share, catis"] = Space(handle, given.budget).reduction(Candidate("catis", shape=SAME_SHARE))
    forms += [(what, made, None) for what, made in controls.items()]
    forms += [(f"{what}, calibrated", made, "fit") for what, made in controls.items()]
    forms = [form for form in forms if not given.only or form[0] in given.only]
    measure(given, handle, forms, seen, inputs, labels)


def show(file: Path, other: str) -> None:
    """The rows as Markdown: forms down, models and budgets across; stars where p < 0.05 against another form."""
    with file.open(newline="") as rows:
        runs = list(csv.DictReader(rows))
    models = list(dict.fromkeys((run["model"], run["budget"]) for run in runs))
    cells = {(run["what"], run["model"], run["budget"]): run for run in runs}
    titles = " | ".join(f"{NAMES[model]}, {budget}" for model, budget in models)
    print(f"| top-1, % (points from {other}, * p < 0.05) | {titles} |")
    print("|---" * (len(models) + 1) + "|")
    for what in dict.fromkeys(run["what"] for run in runs):
        print(f"| {what} |", " | ".join(cell(cells.get((what, *key)), other) for key in models), "|")


def cell(run: dict[str, str] | None, other: str) -> str:
    """One accuracy, and how far it is from that of the other form."""
    if run is None:
        return "-"
    points, p = (run[name] for name in run if name.startswith("against_") or name == "p")
    bare = run["what"] in ("vanilla", other)
    return f"{float(run['top1']):.1f}" + ("" if bare else f" ({float(points):+.1f}{'*' if float(p) < 0.05 else ''})")


def measure(given: argparse.Namespace, handle: hosts.Handle, forms, seen, inputs, labels: torch.Tensor) -> None:
    vanilla = macs_of(handle, Reduction.none())
    smaller = None
    with given.out.open("a", newline="") as file:
        writer = csv.writer(file)
        if not file.tell():
            writer.writerow(COLUMNS)
        with handle.installed(controls_at(handle, given.budget)["smaller image"]):
            smaller = right(handle.model, inputs, labels)
        whole = right(handle.model, inputs, labels).float().mean()
        for what, reduction, correction in forms:
            if correction == "fit":
                weights = calibrated_weights(handle.model, reduction, seen).weights
                correction = Correction(weights, reduction) if weights else None
            with handle.installed(reduction, correction):
                own = right(handle.model, inputs, labels)
            share = round(macs_of(handle, reduction) / vanilla, 4)
            row = [given.model, given.budget, "clean", what, share, len(own), *interval(own)]
            row += [round(100 * float(own.float().mean() / whole), 1), *against(own, smaller), "float32"]
            print(*row, flush=True)
            writer.writerow(row)
            file.flush()


if __name__ == "__main__":
    main()
