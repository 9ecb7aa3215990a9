"""Runs one model over the views, each reduction once, and keeps what it predicted and how long that took."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from functools import partial
from typing import NamedTuple

import numpy as np
from torch import nn

from catis.api import applied
from catis.core.reduction import Reduction
from catis.data.preprocessing import Preprocessing
from catis.demo.images import in_batches
from catis.demo.workers import Task, Workers
from catis.evaluate.predict import predict
from catis.evaluate.prepared import PreparedImages
from catis.runs.predictions import Predictions
from catis.runs.spec import DataSpec, ModelSpec, RunSpec
from catis.zoo.models import DEPTHS

VANILLA = Reduction.none()


class _Pass(NamedTuple):
    """One batch: what was predicted, and the processor seconds of the model."""

    predictions: Predictions
    seconds: float


class Scores:
    """Predictions of one model under any reduction; each pass is made once.

    Args:
        name: Zoo name.
        preprocessing: How it wants its images.
        views: Images by view.
        batch: Images per forward pass.
        workers: Whose copies of the model run.

    Example:
        >>> from catis import hosts, zoo
        >>> from catis.demo.images import make_views
        >>> from catis.demo.settings import Settings
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
        self.name, self.depth = name, DEPTHS[name]
        self.views = {view: in_batches(images, batch) for view, images in views.items()}
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

    def speed_up(self, reduction: Reduction) -> tuple[float, float, float]:
        """Vanilla's time over the reduction's on the same batch: median and quartiles over the batches."""
        slow, fast = self.seconds(VANILLA), self.seconds(reduction)
        ratios = [before / after for before, after in zip(slow, fast, strict=True)]
        low, _, high = statistics.quantiles(ratios, n=4) if len(ratios) > 1 else (ratios[0],) * 3
        return statistics.median(ratios), low, high

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
