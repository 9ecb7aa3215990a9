"""Do tokens go where rankings survive? `schedules.py RECIPES [--figure FILE]`.

RECIPES holds MODEL/BUDGET folders that `catis tune` wrote. From its `tune.json`, of each: tokens that leave each block
under the tuned recipe, under the paper's rule "spend where rho_s is high" (adaptive) and under the same share.
"""

import argparse
import csv
from pathlib import Path
from typing import Any

from scipy.stats import spearmanr
from tuned import measured_by_tune

from catis.diagnostics.estimates import Estimate
from catis.recipes import load_recipe
from catis.report.chart import draw_wrapping
from catis.report.diagnosis import removal_rates, schedule_panels
from catis.report.tune import SCHEDULES

SHOWN = ("tuned", "adaptive", "same share")
COLUMNS = ["model", "budget", "what", "patches", "kept", "rho_s_of_rates", "kl", "agreement", "n"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("recipes", type=Path)
    parser.add_argument("--out", type=Path, default=Path("results/schedules.csv"))
    parser.add_argument("--figure", type=Path)
    parser.add_argument("--model", default="deit_tiny_patch16_224")
    parser.add_argument("--budget", default="0.36")
    given = parser.parse_args()
    with given.out.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(COLUMNS)
        for folder in sorted(given.recipes.glob("*/0.*")):
            if measured_by_tune(folder) is not None:
                for row in rows(folder):
                    print(*row, flush=True)
                    writer.writerow([folder.parent.name, folder.name, *row])
    if given.figure is not None:
        given.figure.write_text(picture(given.recipes / given.model / given.budget))


def read(folder: Path) -> tuple[dict[str, Any], dict[str, list[int]]]:
    """What was measured, and tokens that leave each block by kind of schedule."""
    content = measured_by_tune(folder)
    return content, content["kept"][folder.name]


def rows(folder: Path):
    """Of each schedule: where it starts, what it keeps, how its rates rank beside pairwise rho_s, what it is worth."""
    content, kept = read(folder)
    rho_s = [block["mean"] for block in content["rho_s"]["pairwise"]]
    points = {point["kind"]: point for point in content["points"] if point["budget"] == float(folder.name)}
    own = kept["tuned"][0] + load_recipe(folder).to_json()["r"][0]  # a smaller input has fewer patches
    for what in (name for name in SHOWN if name in kept):
        patches = own if what == "tuned" else kept["vanilla"][0]
        rates = removal_rates(kept[what], patches)[:-1]  # the last block removes nothing: the head does not read it
        rank = spearmanr(rates, rho_s[:-1]).statistic if len(set(rates)) > 1 else float("nan")
        point = points[what]
        measured = round(point["kl"], 4), round(100 * point["agreement"], 1), point["n"]
        yield [what, patches, " ".join(map(str, kept[what])), round(float(rank), 2), *measured]


def picture(folder: Path) -> str:
    content, kept = read(folder)
    rho_s = {name: [Estimate(**block) for block in blocks] for name, blocks in content["rho_s"].items()}
    shown = {name: kept[name] for name in SCHEDULES if name in kept}
    panels = schedule_panels(shown, kept["vanilla"][0], rho_s)
    return draw_wrapping(panels, f"Schedules of {folder.parent.name} at {folder.name}")


if __name__ == "__main__":
    main()
