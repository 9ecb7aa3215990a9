"""Theta of CATIS by both objectives, as a table: `theta.py RECIPES --out CSV`; `--show` prints it as Markdown.

RECIPES holds MODEL/rho_s and MODEL/fidelity: what `catis tune MODEL --objective diagnostic` and
`catis tune MODEL --method catis --without calibration --without size` wrote.
"""

import argparse
import csv
import json
from pathlib import Path

from tuned import NAMES

from catis.recipes import load_recipe

THETA = ("gamma", "w_cls", "tau", "evict_ratio", "l_start")
COLUMNS = ["model", "objective", "budget", *THETA, "rho_s", "default_rho_s", "kl", "agreement", "n"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("recipes", type=Path)
    parser.add_argument("--out", type=Path, default=Path("results/theta.csv"))
    parser.add_argument("--show", action="store_true", help="print the table of docs/tuning.md, read no recipe")
    given = parser.parse_args()
    if given.show:
        show(given.out)
        return
    with given.out.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(COLUMNS)
        for name in NAMES:
            for objective in ("rho_s", "fidelity"):
                if (given.recipes / name / objective / "tune.json").exists():
                    writer.writerow([name, objective, *row(given.recipes / name / objective)])


def row(folder: Path) -> list[object]:
    """Budget, Theta, what the paper's procedure measured where it chose, and what the images that judge say."""
    options = load_recipe(folder).reduction.options
    content = json.loads((folder / "tune.json").read_text())
    point = next(point for point in content["points"] if point["kind"] == "tuned")
    told = content.get("theta") or {}
    rho_s = [round(told[name], 3) if name in told else "" for name in ("rho_s", "default_rho_s")]
    theta = [round(options[name], 3) for name in THETA]
    return [point["budget"], *theta, *rho_s, round(point["kl"], 3), round(100 * point["agreement"], 1), point["n"]]


def show(file: Path) -> None:
    with file.open(newline="") as rows:
        runs = list(csv.DictReader(rows))
    print("| model, chosen by |", " | ".join(THETA), "| KL | same class, % | n |")
    print("|---" * (len(THETA) + 4) + "|")
    for run in runs:
        values = " | ".join(f"{float(run[name]):g}" for name in THETA)
        print(
            f"| {NAMES[run['model']]}, {run['objective']} | {values} | {run['kl']} | {run['agreement']} | {run['n']} |"
        )


if __name__ == "__main__":
    main()
