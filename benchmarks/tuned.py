"""Accuracy of tuned recipes beside the controls on images that tuned nothing: `tuned.py ASSETS RECIPES --out CSV`.

ASSETS holds `load.py`, `weights/` and `images/` (docs/results.md). RECIPES holds MODEL/BUDGET folders that `catis tune`
wrote from the first half of the images, in the order of the SHA-256 of their names; the second half judges here. An
empty folder gets the rows that need no recipe.
"""

import argparse
import csv
import hashlib
import json
import runpy
from pathlib import Path
from typing import Any

import torch
from PIL import Image

from catis import hosts
from catis.core.reduction import Reduction
from catis.data.corruptions import corrupt
from catis.data.preprocessing import Preprocessing
from catis.diagnostics.estimates import mcnemar, wilson
from catis.recipes import load_recipe
from catis.registry import create_method
from catis.report.chart import Panel, draw
from catis.report.colours import style_of
from catis.report.marks import Line
from catis.tuning.at_budget import macs_of
from catis.tuning.candidates import Candidate, Space
from catis.tuning.controls import constant_r, controls_at

CORRUPTIONS = ("gaussian_noise", "contrast", "jpeg_compression", "pixelate")
"""Calibration sees noise and low contrast of its own making; the other two it never sees."""
VIEWS = {"clean": None, **{f"{name} 3": (name, 3) for name in CORRUPTIONS}}
NAMES = {"deit_tiny_patch16_224": "DeiT-Ti", "vit_tiny_patch16_224": "ViT-Ti", "vit_base_patch16_224": "ViT-B"}
SMALL = 192
"""A smaller input together with a budget: two patches a side fewer."""
COLUMNS = [
    "model",
    "budget",
    "view",
    "what",
    "macs_share",
    "n",
    "top1",
    "low",
    "high",
    "of_vanilla",
    "against_smaller",
    "p",
    "precision",
]


def halves(folder: Path) -> tuple[list[Path], list[Path]]:
    files = sorted(folder.rglob("*.jpg"), key=lambda file: hashlib.sha256(name_of(file).encode()).hexdigest())
    return files[: len(files) // 2], files[len(files) // 2 :]


def name_of(file: Path) -> str:
    return f"{file.parent.name}/{file.name}"


def batches(files: list[Path], preprocessing: Preprocessing, view: tuple[str, int] | None):
    for start in range(0, len(files), 50):
        pixels = [preprocessing.pixels(Image.open(file)) for file in files[start : start + 50]]
        if view is not None:
            pixels = [corrupt(image, *view, seed=start + place) for place, image in enumerate(pixels)]
        yield preprocessing.normalise(pixels)


def judged(assets: Path, name: str, view: str) -> tuple[hosts.Handle, list[torch.Tensor], torch.Tensor]:
    """A model with its weights, the half of the images that judges under a view, and their labels."""
    loader = runpy.run_path(str(assets / "load.py"))
    images = assets / "images" / "imagenet1000"
    classes = sorted(path.name for path in images.iterdir())
    test = halves(images)[1]
    labels = torch.tensor([classes.index(file.parent.name) for file in test])
    mean, std, crop = loader["PREPROCESS"][name]
    inputs = list(batches(test, Preprocessing((224, 224), crop, mean, std), VIEWS[view]))
    return hosts.find(loader["model"](name)), inputs, labels


def right(
    model: torch.nn.Module, inputs: list[torch.Tensor], labels: torch.Tensor, bfloat16: bool = False
) -> torch.Tensor:
    with torch.inference_mode(), torch.autocast("cpu", torch.bfloat16, enabled=bfloat16):
        return torch.cat([model(batch).argmax(-1) for batch in inputs]) == labels


def forms(handle: hosts.Handle, recipe: Path, budget: float, name: str = "tuned"):
    if any(recipe.iterdir()):
        loaded = load_recipe(recipe)
        yield name, loaded.reduction, loaded.correction
        yield f"{name}, not calibrated", loaded.reduction, None
    yield "budget alone", handle.bind(Reduction.of(budget=budget)), None
    if budget <= 0.5:  # above, that many pixels alone are within the budget, or nearly
        yield f"budget, {SMALL} pixels", handle.bind(Reduction.of(budget=budget, input_size=SMALL)), None
    for name, reduction in controls_at(handle, budget).items():
        yield name, reduction, None
    yield "constant r, mctf", constant_r(handle, budget, create_method("mctf")), None
    told = measured_by_tune(recipe)
    counts = told["kept"][recipe.name].get("adaptive") if told else None
    if counts is not None:
        yield "adaptive", Space(handle, budget).reduction(Candidate("tome", kept=tuple(counts))), None


def measured_by_tune(recipe: Path) -> dict[str, Any] | None:
    """What `catis tune` said of a recipe: in its folder, or in the one around it if there were several budgets."""
    files = [folder / "tune.json" for folder in (recipe, recipe.parent)]
    return next((json.loads(file.read_text()) for file in files if file.exists()), None)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("assets", type=Path)
    parser.add_argument("recipes", type=Path)
    parser.add_argument("--out", type=Path, default=Path("results/tuned.csv"))
    parser.add_argument("--models", nargs="*", help="only these")
    parser.add_argument("--views", nargs="*", default=list(VIEWS), choices=list(VIEWS))
    parser.add_argument("--only", nargs="*", help="only these rows; vanilla and the smaller image always")
    parser.add_argument("--budgets", nargs="*", help="only these")
    parser.add_argument("--name", default="tuned", help="of the rows of these recipes; must begin with tuned")
    parser.add_argument("--bfloat16", action="store_true", help="compute in bfloat16, all rows alike")
    parser.add_argument("--keep", type=Path, help="folder for which images each control got right, read again if there")
    parser.add_argument("--show", action="store_true", help="print the table of docs/tuning.md, measure nothing")
    parser.add_argument("--figure", type=Path, default=Path("docs/figures/tuned.svg"))
    given = parser.parse_args()
    if given.show:
        show(given.out)
        return
    done = done_in(given.out)
    with given.out.open("a", newline="") as file:
        writer = csv.writer(file)
        if not file.tell():
            writer.writerow(COLUMNS)
        for folder in sorted(path for path in given.recipes.iterdir() if not given.models or path.name in given.models):
            for view in given.views:
                wanted = [
                    path for path in sorted(folder.glob("0.*")) if not given.budgets or path.name in given.budgets
                ]
                left = [path for path in wanted if (folder.name, path.name, view) not in done]
                if left:
                    measure(writer, given.assets, left, view, given.only, given.bfloat16, given.keep, given.name)
                    file.flush()
    with given.out.open(newline="") as file:
        draw_figure(list(csv.DictReader(file)), given.figure)


def show(file: Path) -> None:
    """The rows as Markdown: models and budgets down, forms across; a dash where a form was not measured."""
    with file.open(newline="") as rows:
        runs = list(csv.DictReader(rows))
    forms = ["vanilla", *dict.fromkeys(run["what"] for run in runs if run["what"] != "vanilla")]
    print("| top-1, % (points from the smaller image, * p < 0.05) |", " | ".join(forms), "|")
    print("|---" * (len(forms) + 1) + "|")
    cells: dict[tuple[str, str, str], dict[str, str]] = {}
    for run in runs:
        star = "*" if float(run["p"]) < 0.05 else ""
        bare = run["what"] in ("vanilla", "smaller image")
        against = "" if bare else f" ({float(run['against_smaller']):+.1f}{star})"
        row = cells.setdefault((run["model"], run["budget"], run["view"]), {})
        row[run["what"]] = f"{float(run['top1']):.1f}{against}"
    for (model, budget, view), row in cells.items():
        print(f"| {NAMES[model]}, {budget}, {view} |", " | ".join(row.get(form, "-") for form in forms), "|")


def done_in(file: Path) -> set[tuple[str, str, str]]:
    """Model, budget and view of what an earlier run wrote."""
    if not file.exists():
        return set()
    with file.open(newline="") as rows:
        return {(row["model"], row["budget"], row["view"]) for row in csv.DictReader(rows)}


def kept(folder: Path | None, name: str, look) -> torch.Tensor:
    """What `look` gives, or gave in an earlier run."""
    if folder is None:
        return look()
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / f"{name}.pt"
    if not file.exists():
        torch.save(look(), file)
    return torch.load(file)


def measure(
    writer,
    assets: Path,
    folders: list[Path],
    view: str,
    only: list[str] | None,
    bfloat16: bool = False,
    keep: Path | None = None,
    tuned: str = "tuned",
) -> None:
    """All budgets of a model on one view; vanilla once."""
    name = folders[0].parent.name
    handle, inputs, labels = judged(assets, name, view)
    model = handle.model

    def look() -> torch.Tensor:
        return right(model, inputs, labels, bfloat16)

    key = f"{name} {'bfloat16' if bfloat16 else 'float32'} {view}"
    macs, vanilla = macs_of(handle, Reduction.none()), kept(keep, key, look)
    for folder in folders:
        marks = {"vanilla": (vanilla, 1.0)}
        for what, reduction, correction in forms(handle, folder, float(folder.name), tuned):
            if not only or what in only or what == "smaller image":
                own = None if what.startswith("tuned") else keep  # a recipe may have been written anew
                with handle.installed(reduction, correction):
                    share = macs_of(handle, reduction) / macs
                    marks[what] = kept(own, f"{key} {folder.name} {what}", look), share
        for what, (own, share) in marks.items():
            row = [name, folder.name, view, what, round(share, 4), len(own), *interval(own)]
            row += [round(100 * float(own.float().mean() / vanilla.float().mean()), 1)]
            row += [*against(own, marks["smaller image"][0]), "bfloat16" if bfloat16 else "float32"]
            print(*row, flush=True)
            writer.writerow(row)


def draw_figure(rows: list[dict[str, str]], file: Path) -> None:
    """Accuracy against multiply-adds on clean images, a panel per model."""
    shown = {"tuned": "catis", "smaller image": "smaller image", "constant r": "tome", "constant r, mctf": "mctf"}
    titles = {"tuned": "catis tune", "constant r": "ToMe, constant r", "constant r, mctf": "MCTF, constant r"}
    panels, clean = [], [row for row in rows if row["view"] == "clean"]
    for model in sorted({row["model"] for row in clean}):
        own = [row for row in clean if row["model"] == model]
        lines = []
        for what, name in shown.items():
            points = sorted(
                {(float(row["macs_share"]), float(row["top1"])) for row in own if row["what"] in (what, "vanilla")}
            )
            style = style_of(name)
            x, y = [100 * share for share, _ in points], [top1 for _, top1 in points]
            lines.append(Line(titles.get(what, what), x, y, style.colour, style.marker))
        panels.append(Panel(f"{model}, n={own[0]['n']}", "multiply-adds, % of vanilla", "top-1, %", lines))
    if panels:
        file.write_text(draw(panels, "Accuracy at a budget"))


def interval(own: torch.Tensor) -> list[float]:
    hit, n = int(own.sum()), len(own)
    return [round(100 * hit / n, 1), *(round(end, 1) for end in wilson(hit, n))]


def against(own: torch.Tensor, other: torch.Tensor) -> tuple[float, float]:
    gained, lost = int((own & ~other).sum()), int((~own & other).sum())
    return round(100 * (gained - lost) / len(own), 1), float(f"{mcnemar(gained, lost):.2g}")


if __name__ == "__main__":
    main()
