"""Which shape of the schedule is best in general: `shapes.py ASSETS --out CSV`.

KL(vanilla || reduced) of every start shape of the search, for some methods and budgets, without tuning or calibration,
on images of the half that tunes (docs/tuning.md); zoo models on images of the zoo.
"""

import argparse
import csv
import runpy
from pathlib import Path

import torch
from tuned import batches, halves

from catis import hosts, zoo
from catis.data.preprocessing import Preprocessing
from catis.tuning.candidates import SHAPES, Candidate, Space
from catis.tuning.objective import Objective

METHODS = ("cluster", "catis", "tome", "mctf")
BUDGETS = (0.36, 0.5, 0.65)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("assets", type=Path)
    parser.add_argument("--out", type=Path, default=Path("results/shapes.csv"))
    parser.add_argument("--images", type=int, default=96)
    parser.add_argument("--methods", nargs="+", default=METHODS)
    parser.add_argument("--models", nargs="+", default=["tiny-6", "tiny-12", "deit_tiny_patch16_224"])
    given = parser.parse_args()
    with given.out.open("a", newline="") as file:
        writer = csv.writer(file)
        if not file.tell():
            writer.writerow(["model", "budget", "method", "shape", "n", "kl"])
        for name in given.models:
            measure(writer, name, given.methods, *load(given, name))
            file.flush()


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


def measure(writer, name: str, methods, model: torch.nn.Module, images: torch.Tensor, preprocessing) -> None:
    objective = Objective(model, images, preprocessing, batch_size=16, damaged=False)
    for budget in BUDGETS:
        space = Space(hosts.find(model), budget)
        for method in methods:
            for shape, weights in SHAPES.items():
                distance = objective.distance(space.reduction(Candidate(method, shape=weights)))
                print(name, budget, method, shape, len(images), f"{distance:.4f}", flush=True)
                writer.writerow([name, budget, method, shape, len(images), round(distance, 4)])


if __name__ == "__main__":
    main()
