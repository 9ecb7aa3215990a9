"""The tabs beside the image: accuracy against multiply-adds, and how far a model can be reduced."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from catis import hosts
from catis.api import wanted_recipe
from catis.app.answering import Settings
from catis.app.choices import Choices
from catis.app.onnx_model import OnnxModel
from catis.app.views import sentence
from catis.data.images import BrokenImage, read_image
from catis.diagnostics.report import Diagnosis
from catis.health.check import diagnose
from catis.inference import shared_copy
from catis.report.chart import draw_wrapping
from catis.report.diagnosis import diagnosis_panels
from catis.report.page import chart_figure, paragraph
from catis.report.store import scanned, store_figure
from catis.report.tune import TUNE_FILE, points_table, read_tuned, tune_figure
from catis.report.tune import answer as tuned_answer
from catis.runs.store import Store

NOTHING = (
    "Nothing to draw yet. Start the page with --results DIR, a results store that `catis eval --store DIR` or "
    "`catis sweep` wrote or a folder of `catis tune`, or with --recipe DIR of a tuning."
)
CAPTION = (
    "Left, rho_s: how alike each signal ranks the tokens of an image and of the same image with noise, 1 for the same "
    "order. Middle, rho_off: how alike the tokens have become. Right: how far the reduced model's tokens are from "
    "those of the vanilla one. Bands: 95 % over images."
)


def curves_view(folders: Sequence[Path]) -> str:
    """Figures of all folders that hold something to draw."""
    for folder in folders:
        if not folder.is_dir():
            raise ValueError(f"{folder} is not a folder: expected a results store, or what `catis tune` wrote")
    parts = [
        _of_tuning(folder) if (folder / TUNE_FILE).is_file() else store_figure(scanned(Store(folder))[0])
        for folder in folders
    ]
    return "".join(parts) or sentence(NOTHING)


def _of_tuning(folder: Path) -> str:
    content = read_tuned(folder / TUNE_FILE)
    points = content["points"]
    table = points_table(points, f"{content['model']}: judged on images that chose nothing").html()
    return paragraph(tuned_answer(points)) + "".join(tune_figure(points)) + table


def diagnosed(
    choices: Choices, settings: Settings, images: Sequence[Path], progress: Callable[[int, int], None] | None = None
) -> Diagnosis:
    """The health check of the chosen model under the chosen reduction."""
    model = choices.models[settings.model]
    if isinstance(model, OnnxModel):
        raise ValueError("An exported file does not tell what happens inside it: choose the model it was made of.")
    recipe = choices.recipe(settings.way) or wanted_recipe(settings.way, budget=settings.budget)
    preprocessing = hosts.find(model).preprocessing()
    read = [read_image(path, preprocessing) for path in images]
    pixels = [image for image in read if not isinstance(image, BrokenImage)]
    return diagnose(shared_copy(model), pixels, recipe=recipe, progress=progress, preprocessing=preprocessing)


def diagnosis_view(diagnosis: Diagnosis) -> str:
    """The verdict, the reasons, and the figure over the depth."""
    chart = draw_wrapping(diagnosis_panels(diagnosis), "diagnosis over the depth")
    return diagnosis._repr_html_() + chart_figure(chart, CAPTION)
