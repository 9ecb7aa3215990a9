"""What switches of a reduction are worth: `switches.py ASSETS --models NAME ... --out CSV`; `--show` prints the tables.

KL(vanilla || reduced) of methods at a budget, in the default shape, with and without one switch: the mean norm of the
members for a merged token (`restore_norm`), a gain of the size term that rises over the depth in place of 1
(`size_gain`), and with it attention that gets softer as tokens go (`soften`). Without tuning or calibration, on images
of the half that tunes.
"""

import argparse
import csv
import math
from dataclasses import replace
from pathlib import Path

from shapes import load
from tuned import NAMES

from catis import hosts
from catis.methods.cluster import FIRST_GAIN, LAST_GAIN, SOFTEN
from catis.tuning.candidates import Candidate, Space
from catis.tuning.objective import Objective

METHODS = ("cluster", "catis", "tome", "mctf", "pitome")
BUDGETS = (0.36, 0.5, 0.65)
RISING = (FIRST_GAIN, LAST_GAIN)
SWITCHES = {
    "restore_norm": ({"restore_norm": False}, {"restore_norm": True}),
    "size_gain": ({"gain": (1.0, 1.0), "soften": 0.0}, {"gain": RISING, "soften": 0.0}),
    "soften": ({"gain": RISING, "soften": 0.0}, {"gain": RISING, "soften": SOFTEN}),
}
"""By switch, what a candidate has without it and with it; all else is the method's own."""
TITLES = {
    "restore_norm": "KL, norms as they come = 1",
    "size_gain": "KL, the whole size term = 1",
    "soften": "KL, attention as it is = 1",
}
COLUMNS = ["model", "budget", "method", "switch", "n", "kl_without", "kl_with"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("assets", type=Path)
    parser.add_argument("--out", type=Path, default=Path("results/switches.csv"))
    parser.add_argument("--images", type=int, default=64)
    parser.add_argument("--budgets", nargs="+", type=float, default=BUDGETS)
    parser.add_argument("--models", nargs="+", default=["tiny-12", "deit_tiny_patch16_224", "vit_tiny_patch16_224"])
    parser.add_argument("--show", action="store_true", help="print the tables of docs/methods.md, measure nothing")
    given = parser.parse_args()
    if given.show:
        show(given.out)
        return
    with given.out.open("a", newline="") as file:
        writer = csv.writer(file)
        if not file.tell():
            writer.writerow(COLUMNS)
        for name in given.models:
            measure(writer, name, given.budgets, *load(given, name))
            file.flush()


def measure(writer, name: str, budgets, model, images, preprocessing) -> None:
    objective = Objective(model, images, preprocessing, batch_size=16, damaged=False)
    for budget in budgets:
        space = Space(hosts.find(model), budget)
        for method in METHODS:
            for switch, both in SWITCHES.items():
                forms = (space.reduction(replace(Candidate(method), **form)) for form in both)
                row = [name, budget, method, switch, len(images)]
                row += [round(objective.distance(form), 4) for form in forms]
                print(*row, flush=True)
                writer.writerow(row)


def show(file: Path) -> None:
    """KL with a switch as a multiple of that without, methods across; a table for each switch."""
    with file.open(newline="") as rows:
        runs = list(csv.DictReader(rows))
    for switch, title in TITLES.items():
        ratios = {
            (run["model"], run["budget"], run["method"]): float(run["kl_with"]) / float(run["kl_without"])
            for run in runs
            if run["switch"] == switch
        }
        print(f"| {title} |", " | ".join(METHODS), "|")
        print("|---" * (len(METHODS) + 1) + "|")
        for model, budget in dict.fromkeys(key[:2] for key in ratios):
            cells = (f"{ratios[model, budget, method]:.2f}" for method in METHODS)
            print(f"| {NAMES.get(model, model)}, {budget} |", " | ".join(cells), "|")
        each = [[ratio for key, ratio in ratios.items() if key[2] == method] for method in METHODS]
        print("| all |", " | ".join(f"{math.prod(own) ** (1 / len(own)):.2f}" for own in each), "|")
        print(f"| above 1, of {len(each[0])} |", " | ".join(str(sum(r > 1 for r in own)) for own in each), "|")
        print()


if __name__ == "__main__":
    main()
