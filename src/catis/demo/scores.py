"""The demo's images, made once; and one model run over them, each reduction once: what it predicted, and how long."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from functools import partial
from typing import NamedTuple

import numpy as np
from torch import nn

from catis import zoo
from catis.api import applied
from catis.core.reduction import Reduction
from catis.data.preprocessing import Preprocessing
from catis.demo.settings import SHIFTS, Settings
from catis.demo.workers import Task, Workers
from catis.evaluate.predict import predict
from catis.evaluate.prepared import Labels, PreparedImages
from catis.runs.predictions import Predictions
from catis.runs.spec import DataSpec, ModelSpec, RunSpec

VANILLA = Reduction.none()


def make_views(settings: Settings) -> dict[str, PreparedImages]:
    """The clean view, and the shifted one in equal parts of hard, renditions and sketch.

    Example:
        >>> views = make_views(Settings(clean=2, shifted=3))
        >>> {name: len(view.pixels) for name, view in views.items()}
        {'clean': 2, 'shifted': 3}
    """
    each = max(settings.shifted // len(SHIFTS), 1)
    return {
        "clean": _view([("clean", settings.clean)], settings.seed),
        "shifted": _view([(name, each) for name in SHIFTS], settings.seed),
    }


def _view(parts: list[tuple[str, int]], seed: int) -> PreparedImages:
    pairs = [pair for name, n in parts for pair in zoo.dataset(name, split="test", n=n, seed=seed)]
    names, labels = [str(number) for number in range(len(pairs))], np.array([label for _, label in pairs], np.int64)
    return PreparedImages(Labels(names, labels, None, ""), np.stack([image for image, _ in pairs]), {})


class _Pass(NamedTuple):
    """One batch: what was predicted, and the processor seconds of the model."""

    predictions: Predictions
    seconds: float


class Scores:
    """Predictions of one model under any reduction; each pass is made once.

    Example:
        >>> from catis import hosts
        >>> net, views = zoo.load("tiny-6"), make_views(Settings(clean=6, shifted=3))
        >>> with Workers({"tiny-6": net}) as workers:
        ...     scores = Scores("tiny-6", hosts.find(net).preprocessing(), views, 4, workers)
        ...     _ = list(workers.run(scores.tasks("clean", [Reduction.of("tome", r=4)])))
        >>> len(scores.predictions("clean", Reduction.of("tome", r=4)))
        6
    """

    def __init__(
        self, name: str, preprocessing: Preprocessing, views: Mapping[str, PreparedImages], batch: int, workers: Workers
    ) -> None:
        self.name, self.depth = name, zoo.models.DEPTHS[name]
        self.views = {view: _in_batches(images, batch) for view, images in views.items()}
        self._preprocessing, self._workers = preprocessing, workers
        self._spec = RunSpec(ModelSpec(name), DataSpec("zoo-clean"), batch_size=batch, on_error="raise")
        self._passes: dict[tuple[str, Reduction], dict[int, _Pass]] = {}

    def tasks(self, view: str, reductions: Sequence[Reduction]) -> list[Task]:
        """One per batch: every reduction in turn, so that a slow moment of the machine hits them alike."""
        work = self.depth * len(reductions)
        return [
            Task(work * len(batch.about.names), partial(self._in_turn, view, at, reductions))
            for at, batch in enumerate(self.views[view])
        ]

    def predictions(self, view: str, reduction: Reduction) -> Predictions:
        """What was predicted of all images of a view. What is not known yet is computed, by a worker only."""
        if (view, reduction) not in self._passes:
            for at in range(len(self.views[view])):
                self._in_turn(view, at, [reduction])
        passes = self._passes[view, reduction]
        parts = [passes[at].predictions for at in sorted(passes)]
        names = [name for part in parts for name in part.names]
        fields = ("labels", "top", "confidence", "margin")
        return Predictions(names, *(np.concatenate([getattr(part, field) for part in parts]) for field in fields))

    def accuracy(self, view: str, reduction: Reduction) -> float:
        """Share of images classified rightly."""
        return float(self.predictions(view, reduction).correct().mean())

    def tried(self, view: str, method: str) -> list[int]:
        """Amounts measured so far for a method."""
        known = list(self._passes)  # a copy, because other workers add to it
        amounts = {r.r for seen, r in known if seen == view and r.method.name == method and r.head_only is None}
        return sorted(amounts)

    def speed_up(self, reduction: Reduction) -> float:
        """Vanilla's time over the reduction's on the same batch: median over the batches."""
        slow, fast = self.seconds(VANILLA), self.seconds(reduction)
        return statistics.median(before / after for before, after in zip(slow, fast, strict=True))

    def seconds(self, reduction: Reduction) -> list[float]:
        """Processor time of each batch of all views."""
        passes = [self._passes.get((view, reduction), {}) for view in self.views]
        return [done[at].seconds for done in passes for at in sorted(done)]

    def _in_turn(self, view: str, at: int, reductions: Sequence[Reduction]) -> None:
        for reduction in reductions:
            self._passes.setdefault((view, reduction), {})[at] = self._run(view, at, reduction)

    def _run(self, view: str, at: int, reduction: Reduction) -> _Pass:
        model = self._workers.model(self.name)
        reduced = nullcontext() if reduction.is_vanilla else applied(model, reduction)
        with reduced, _stopwatch(model) as seconds:
            done = predict(model, self.views[view][at], self._preprocessing, self._spec, retry=False)
        return _Pass(done.predictions, sum(seconds))


def _in_batches(view: PreparedImages, size: int) -> list[PreparedImages]:
    """The images of a view in parts, each a data set of its own."""
    names, labels = view.about.names, view.about.labels
    parts = [slice(start, start + size) for start in range(0, len(names), size)]
    return [PreparedImages(replace(view.about, names=names[p], labels=labels[p]), view.pixels[p], {}) for p in parts]


@contextmanager
def _stopwatch(model: nn.Module) -> Iterator[list[float]]:
    """Processor seconds that this thread spends in each pass of a model: what else the machine does does not count."""
    starts: list[float] = []
    seconds: list[float] = []
    hooks = (
        model.register_forward_pre_hook(lambda *_: starts.append(time.thread_time())),
        model.register_forward_hook(lambda *_: seconds.append(time.thread_time() - starts[-1])),
    )
    try:
        yield seconds
    finally:
        for hook in hooks:
            hook.remove()
