"""Accuracy against GMACs, one figure per model, clean and noisy: `pareto.py results/real-models.csv`."""

from __future__ import annotations

import argparse
import csv
from collections import defaultdict
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("svg")
from matplotlib import pyplot as plt

COLOURS = {"tome": "#4477aa", "tofu": "#ccbb44", "pitome": "#228833", "mctf": "#aa3377", "catis": "#ee6677"}
MARKERS = {"tome": "o", "tofu": "s", "pitome": "^", "mctf": "D", "catis": "P"}


def draw(rows: list[dict[str, str]], file: Path) -> None:
    sets = sorted({row["data"] for row in rows})
    figure, axes = plt.subplots(1, len(sets), figsize=(5.2 * len(sets), 3.8), sharey=False, layout="constrained")
    for axis, data in zip(axes if len(sets) > 1 else [axes], sets, strict=True):
        panel(axis, [row for row in rows if row["data"] == data])
        axis.set_title(f"{rows[0]['model']}, {data}, n={rows[0]['n']}", fontsize=9)
    figure.savefig(file, metadata={"Date": None})
    plt.close(figure)


def panel(axis: Any, rows: list[dict[str, str]]) -> None:
    vanilla = next(row for row in rows if row["method"] == "vanilla")
    axis.axhline(float(vanilla["top1"]), color="#999999", linewidth=0.8, linestyle="--", label="vanilla")
    lines = defaultdict(list)
    for row in rows:
        if row["method"] != "vanilla":
            lines[row["method"]].append((float(row["gmacs"]), float(row["top1"])))
    for method in [name for name in COLOURS if name in lines]:
        points = [(float(vanilla["gmacs"]), float(vanilla["top1"])), *sorted(lines[method], reverse=True)]
        axis.plot(*zip(*points, strict=True), marker=MARKERS[method], color=COLOURS[method], markersize=4.5,
                  linewidth=1.3, label=method)  # fmt: skip
    axis.set_xlabel("GMACs per image", fontsize=9)
    axis.set_ylabel("top-1, %", fontsize=9)
    axis.grid(alpha=0.25)
    axis.legend(fontsize=8)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("table", type=Path)
    parser.add_argument("--out", type=Path, default=Path("docs/figures"))
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    plt.rcParams["svg.hashsalt"] = "catis"  # the same table gives the same file
    with arguments.table.open() as file:
        rows = list(csv.DictReader(file))
    for model in sorted({row["model"] for row in rows}):
        draw([row for row in rows if row["model"] == model], arguments.out / f"pareto-{model}.svg")
        print(arguments.out / f"pareto-{model}.svg")


if __name__ == "__main__":
    main()
