"""Tuned recipes against every control, image by image: `paired.py ASSETS RECIPES --out CSV [--show]`.

`tuned.py` pairs every row with the smaller image; here the tuned recipe is paired with each control in turn, and the
budget alone too. Images, halves and recipes as there; p is McNemar's.
"""

import argparse
import csv
from pathlib import Path

from tuned import NAMES, VIEWS, against, forms, judged, kept, right

COLUMNS = ["model", "budget", "view", "what", "control", "n", "points", "p", "precision"]
OURS = ("tuned", "budget alone")
CONTROLS = ("smaller image", "constant r", "constant r, mctf", "same share", "random removal", "adaptive")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("assets", type=Path)
    parser.add_argument("recipes", type=Path)
    parser.add_argument("--out", type=Path, default=Path("results/paired.csv"))
    parser.add_argument("--models", nargs="*", help="only these")
    parser.add_argument("--budgets", nargs="*", default=["0.36", "0.5"])
    parser.add_argument("--views", nargs="*", default=["clean", "gaussian_noise 3"], choices=list(VIEWS))
    parser.add_argument("--bfloat16", action="store_true", help="compute in bfloat16, all rows alike")
    parser.add_argument("--keep", type=Path, help="folder for which images each control got right, read again if there")
    parser.add_argument("--show", action="store_true", help="print the table of docs/tuning.md, measure nothing")
    given = parser.parse_args()
    if given.show:
        show(given.out)
        return
    with given.out.open("a", newline="") as file:
        writer = csv.writer(file)
        if not file.tell():
            writer.writerow(COLUMNS)
        for folder in sorted(path for path in given.recipes.iterdir() if not given.models or path.name in given.models):
            for view in given.views:
                measure(writer, given, [folder / budget for budget in given.budgets], view)
                file.flush()


def measure(writer, given: argparse.Namespace, recipes: list[Path], view: str) -> None:
    """Every recipe of a model on one view."""
    name = recipes[0].parent.name
    handle, inputs, labels = judged(given.assets, name, view)
    precision = "bfloat16" if given.bfloat16 else "float32"
    for recipe in recipes:
        marks = {}
        for what, reduction, correction in forms(handle, recipe, float(recipe.name)):
            if what in OURS or what in CONTROLS:
                with handle.installed(reduction, correction):
                    marks[what] = kept(
                        None if what == "tuned" else given.keep,
                        f"{name} {precision} {view} {recipe.name} {what}",
                        lambda: right(handle.model, inputs, labels, given.bfloat16),
                    )
        for what in OURS:
            for control in (control for control in CONTROLS if control in marks):
                row = [name, recipe.name, view, what, control, len(labels), *against(marks[what], marks[control])]
                print(*row, flush=True)
                writer.writerow([*row, precision])


def show(file: Path) -> None:
    """Points of a recipe from each control, as Markdown; a star where p < 0.05."""
    with file.open(newline="") as rows:
        runs = list(csv.DictReader(rows))
    cells: dict[str, dict[str, str]] = {}
    for run in runs:
        key = f"{NAMES[run['model']]}, {run['budget']}, {run['view']}, {run['what']}"
        star = "*" if float(run["p"]) < 0.05 else ""
        cells.setdefault(key, {})[run["control"]] = f"{float(run['points']):+.1f}{star}"
    print("| points ahead of (* p < 0.05) |", " | ".join(CONTROLS), "|")
    print("|---" * (len(CONTROLS) + 1) + "|")
    for key, row in cells.items():
        print(f"| {key} |", " | ".join(row.get(control, "-") for control in CONTROLS), "|")


if __name__ == "__main__":
    main()
