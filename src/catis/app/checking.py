"""The tab of the diagnosis: how far a model can be reduced, and of what it would collapse."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from catis import hosts
from catis.api import wanted_recipe
from catis.app.answering import Settings
from catis.app.choices import Choices
from catis.app.onnx_model import OnnxModel
from catis.data.images import BrokenImage, read_image
from catis.diagnostics.report import Diagnosis
from catis.health.check import diagnose
from catis.inference import shared_copy
from catis.report.chart import draw_wrapping
from catis.report.diagnosis import diagnosis_panels
from catis.report.page import chart_figure

CAPTION = (
    "Left, rho_s: how alike each signal ranks the tokens of an image and of the same image with noise, 1 for the same "
    "order. Middle, rho_off: how alike the tokens have become. Right: how far the reduced model's tokens are from "
    "those of the vanilla one. Bands: 95 % over images."
)


def diagnosed(
    choices: Choices, settings: Settings, images: Sequence[Path], progress: Callable[[int, int], None] | None = None
) -> Diagnosis:
    """The health check of the chosen model under the chosen reduction.

    Raises:
        ValueError: An exported file was chosen, which does not tell what happens inside it.
    """
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
