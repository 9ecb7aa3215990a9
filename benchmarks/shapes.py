"""Which shape of the schedule is best in general: `shapes.py ASSETS --out CSV`.

KL(vanilla || reduced) of every start shape of the search under cluster, of the default shape in four blocks, and of
other methods at the default shape, without tuning or calibration, on images of the half that tunes (docs/tuning.md);
zoo models on images of the zoo.
"""

import argparse
import csv
import math
import runpy
from pathlib import Path

import torch
from tuned import NAMES, batches, halves

from catis import hosts, zoo
from catis.core.budget import BUDGET_METHOD, SHORTEST, in_few_blocks
from catis.data.preprocessing import Preprocessing
from catis.tuning.candidates import SHAPES, Candidate, Space
from catis.tuning.objective import Objective

USUAL = "before the middle"
FEW = "in four blocks"
METHODS = ("cluster", "catis", "tome", "mctf")
BUDGETS = (0.36, 0.5, 0.65)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("assets", type=Path)
    parser.add_argument("--out", type=Path, default=Path("results/shapes.csv"))
    parser.add_argument("--images", type=int, default=96)
    parser.add_argument("--methods", nargs="+", default=METHODS)
    parser.add_argument("--models", nargs="+", default=["tiny-6", "tiny-12", *NAMES])
    parser.add_argument("--shapes", nargs="+", help="only these under cluster")
    parser.add_argument("--show", action="store_true", help="print the tables of docs/budget.md, measure nothing")
    given = parser.parse_args()
    if given.show:
        show(given.out)
        return
    with given.out.open("a", newline="") as file:
        writer = csv.writer(file)
        if not file.tell():
            writer.writerow(["model", "budget", "method", "shape", "n", "kl"])
        for name in given.models:
            measure(writer, name, given.methods, given.shapes, *load(given, name))
            file.flush()


def show(file: Path) -> None:
    """Shapes under cluster beside the same share, then methods beside cluster at the default shape, as Markdown."""
    kl: dict[str, dict[tuple[str, str], float]] = {}
    for run in csv.DictReader(file.open()):
        kl.setdefault(f"{run['model']}, {run['budget']}", {})[run["method"], run["shape"]] = float(run["kl"])
    shapes = [shape for shape in SHAPES if shape != "same share"]
    table(
        "same share",
        shapes,
        {key: [own["cluster", s] / own["cluster", "same share"] for s in shapes] for key, own in kl.items()},
    )
    few = {key: [own["cluster", FEW] / own["cluster", USUAL]] for key, own in kl.items() if ("cluster", FEW) in own}
    table("all blocks", [FEW], few)
    methods, usual = METHODS[1:], USUAL
    table(
        "cluster",
        methods,
        {
            key: [own[m, usual] / own["cluster", usual] for m in methods]
            for key, own in kl.items()
            if (methods[0], usual) in own
        },
    )


def table(unit: str, columns, rows: dict[str, list[float]]) -> None:
    print(f"| KL, {unit} = 1 |", " | ".join(columns), "|")
    print("|---" * (len(columns) + 1) + "|")
    for key, ratios in rows.items():
        print(f"| {key} |", " | ".join(f"{ratio:.2f}" for ratio in ratios), "|")
    each = list(zip(*rows.values(), strict=True))
    print("| all |", " | ".join(f"{math.prod(column) ** (1 / len(column)):.2f}" for column in each), "|")
    print(f"| above 1, of {len(rows)} |", " | ".join(str(sum(ratio > 1 for ratio in column)) for column in each), "|\n")


def load(given: argparse.Namespace, name: str) -> tuple[torch.nn.Module, torch.Tensor, Preprocessing]:
    if name.startswith("tiny-"):
        images = torch.cat([batch for batch, _ in zoo.dataset("clean", "val", n=given.images).batches(32)])
        model = zoo.load(name)
        return model, images, hosts.find(model).preprocessing()
    loader = runpy.run_path(str(given.assets / "load.py"))
    mean, std, crop = loader["PREPROCESS"][name]
    preprocessing = Preprocessing((224, 224), crop, mean, std)
    files = halves(given.assets / "images" / "imagenet1000")[0][: given.images]
    return loader["model"](name), torch.cat(list(batches(files, preprocessing, None))), preprocessing


def measure(writer, name: str, methods, only, model: torch.nn.Module, images: torch.Tensor, preprocessing) -> None:
    depth = hosts.find(model).facts.depth
    shapes = {**SHAPES, **({FEW: tuple(in_few_blocks(depth))} if depth >= SHORTEST else {})}
    shapes = {shape: weights for shape, weights in shapes.items() if not only or shape in only}
    objective = Objective(model, images, preprocessing, batch_size=16, damaged=False)
    for budget in BUDGETS:
        space = Space(hosts.find(model), budget)
        for method in methods:
            for shape, weights in shapes.items() if method == BUDGET_METHOD else [(USUAL, SHAPES[USUAL])]:
                distance = objective.distance(space.reduction(Candidate(method, shape=weights)))
                print(name, budget, method, shape, len(images), f"{distance:.4f}", flush=True)
                writer.writerow([name, budget, method, shape, len(images), round(distance, 4)])


if __name__ == "__main__":
    main()
