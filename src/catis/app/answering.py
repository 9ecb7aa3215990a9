"""From an image, a model and settings to everything that the page shows: figures, classes, cost, times."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

import numpy as np
import torch
from torch import Tensor

from catis import hosts
from catis.api import apply
from catis.app.choices import Choices
from catis.app.onnx_model import OnnxModel
from catis.app.photos import Photo
from catis.data.preprocessing import Pixels
from catis.inference import batch_images, shared_copy
from catis.macs import MacsComparison, compare_macs
from catis.pictures.classes import describe_change, name_classes
from catis.pictures.tracing import Trace, trace
from catis.recipes import Recipe, recipe_of

TOP = 5
ROUNDS, SECONDS = 7, 0.15
"""Rounds of timing, and after how long no further one begins once there are three."""


@dataclass(frozen=True)
class Settings:
    """What a user chose: a model, a method or recipe, and for a method the share of the multiply-adds."""

    model: str
    way: str = "catis"
    budget: float = 0.5


@dataclass(frozen=True)
class Guess:
    """A class and how sure the model is of it, from 0 to 1."""

    label: str
    share: float


@dataclass(frozen=True)
class Answer:
    """What came out for one image."""

    settings: Settings  # what was asked
    pixels: Pixels  # (H, W, 3) the image as the model was given it
    # Most likely classes of the vanilla model; empty where there is none to compare with, or no classifier.
    before: Sequence[Guess]
    after: Sequence[Guess]  # the same of the reduced one
    traced: Trace | None  # what happened to the patches; None for a file whose model is not here
    cost: MacsComparison | None  # multiply-adds and tokens; None likewise
    recipe: Recipe | None  # what was on the model
    ms_before: float | None  # milliseconds of the vanilla model, median; None where there is none
    ms_after: float  # the same of the reduced one
    rounds: int  # passes of each that were timed

    @property
    def change(self) -> str:
        """What became of the image's class, in words; empty without classes to compare."""
        return describe_change(self.before[0].label, self.after[0].label) if self.before and self.after else ""


def answer(choices: Choices, photo: Photo, settings: Settings) -> Answer:
    """Run a model on an image without and with reduction."""
    model = choices.models[settings.model]
    if isinstance(model, OnnxModel):
        return _of_file(choices, model, photo, settings)
    recipe = choices.recipe(settings.way)
    reduced = shared_copy(model)
    if recipe is None:
        apply(reduced, settings.way, budget=settings.budget)
    else:
        apply(reduced, recipe=recipe)
    handle = hosts.find(model)
    preprocessing = handle.preprocessing()
    pixels = photo.pixels(preprocessing)
    images, name = batch_images([pixels], preprocessing, model), name_classes(model)
    with torch.inference_mode():
        traced = trace(reduced, images)
        given: dict[str, Any] = {}
        ms_before, ms_after, rounds = _times(
            lambda: given.update(before=model(images)), lambda: given.update(after=reduced(images))
        )
        before, after = handle.logits(given["before"]), handle.logits(given["after"])
    return Answer(
        settings, pixels, _guesses(before, name), _guesses(after, name),
        traced, compare_macs(model, recipe_of(reduced).reduction), recipe_of(reduced), ms_before, ms_after, rounds,
    )  # fmt: skip


def _of_file(choices: Choices, file: OnnxModel, photo: Photo, settings: Settings) -> Answer:
    """An exported file, beside the vanilla model that it was made of if that is here too."""
    pixels = photo.pixels(file.preprocessing)
    images = file.preprocessing.normalise([pixels]).numpy().astype(np.float32)
    labels = file.labels
    after = _guesses(torch.from_numpy(file.logits(images)), lambda number: labels[number] if labels else f"{number}")
    twin = choices.twin(file)
    if twin is None:
        _, ms, rounds = _times(lambda: None, lambda: file.logits(images))
        return Answer(settings, pixels, (), after, None, None, file.recipe, None, ms, rounds)
    model: Any = choices.models[twin]
    reduced = apply(shared_copy(model), recipe=file.recipe)
    tensor = torch.from_numpy(images)
    with torch.inference_mode():
        traced, before = trace(reduced, tensor), model(tensor)
        ms_before, ms, rounds = _times(lambda: model(tensor), lambda: file.logits(images))
    guesses, cost = _guesses(hosts.find(model).logits(before), name_classes(model)), recipe_of(reduced).reduction
    return Answer(
        settings, pixels, guesses, after, traced, compare_macs(model, cost), file.recipe, ms_before, ms, rounds
    )


def _guesses(logits: Tensor | None, name: Callable[[int], str]) -> list[Guess]:
    if logits is None:
        return []
    shares, numbers = logits[0].float().softmax(-1).topk(min(TOP, logits.shape[-1]))
    return [Guess(name(number), share) for share, number in zip(shares.tolist(), numbers.tolist(), strict=True)]


def _times(before: Callable[[], object], after: Callable[[], object]) -> tuple[float, float, int]:
    """Milliseconds of two steps in turns, so that a slow moment hits both: the medians, and of how many rounds.

    Nothing is warmed up here: the first round may be slow, which moves no median.
    """
    seconds: tuple[list[float], list[float]] = ([], [])
    start = time.perf_counter()
    for number in range(ROUNDS):
        if number >= 3 and time.perf_counter() - start > SECONDS:
            break
        for step, spent in zip((before, after), seconds, strict=True):
            begun = time.perf_counter()
            step()
            spent.append(time.perf_counter() - begun)
    return 1000 * median(seconds[0]), 1000 * median(seconds[1]), len(seconds[0])
