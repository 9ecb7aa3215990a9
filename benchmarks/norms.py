"""What the norm of a merged token is worth: `norms.py ASSETS --models NAME ... --out CSV`; `--show` prints the table.

KL(vanilla || reduced) of methods at a budget, in the default shape, with the norms that means have, and with the mean
norm of the members restored (`restore_norm`); without tuning or calibration, on images of the half that tunes.
"""

import argparse
import csv
import math
from pathlib import Path

from shapes import load
from tuned import NAMES

from catis import hosts
from catis.tuning.candidates import Candidate, Space
from catis.tuning.objective import Objective

METHODS = ("cluster", "catis", "tome", "mctf", "pitome")
BUDGETS = (0.36, 0.5, 0.65)
COLUMNS = ["model", "budget", "method", "n", "kl", "kl_restored"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("assets", type=Path)
    parser.add_argument("--out", type=Path, default=Path("results/norms.csv"))
    parser.add_argument("--images", type=int, default=64)
    parser.add_argument("--budgets", nargs="+", type=float, default=BUDGETS)
    parser.add_argument("--models", nargs="+", default=["tiny-12", "deit_tiny_patch16_224", "vit_tiny_patch16_224"])
    parser.add_argument("--show", action="store_true", help="print the table of docs/methods.md, measure nothing")
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
            both = [
                objective.distance(space.reduction(Candidate(method, restore_norm=given))) for given in (False, True)
            ]
            row = [name, budget, method, len(images), *(round(distance, 4) for distance in both)]
            print(*row, flush=True)
            writer.writerow(row)


def show(file: Path) -> None:
    """KL with norms restored as a multiple of that without, methods across."""
    with file.open(newline="") as rows:
        runs = list(csv.DictReader(rows))
    ratios = {
        (run["model"], run["budget"], run["method"]): float(run["kl_restored"]) / float(run["kl"]) for run in runs
    }
    print("| KL, norms as they come = 1 |", " | ".join(METHODS), "|")
    print("|---" * (len(METHODS) + 1) + "|")
    for model, budget in dict.fromkeys(key[:2] for key in ratios):
        print(
            f"| {NAMES.get(model, model)}, {budget} |",
            " | ".join(f"{ratios[model, budget, method]:.2f}" for method in METHODS),
            "|",
        )
    each = [[ratio for key, ratio in ratios.items() if key[2] == method] for method in METHODS]
    print("| all |", " | ".join(f"{math.prod(own) ** (1 / len(own)):.2f}" for own in each), "|")
    print(f"| above 1, of {len(each[0])} |", " | ".join(str(sum(ratio > 1 for ratio in own)) for own in each), "|")


if __name__ == "__main__":
    main()
