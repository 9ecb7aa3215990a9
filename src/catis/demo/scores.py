"""Runs one model over the views, each method and amount once, and keeps who was right and how long it took."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from functools import partial
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from catis.api import applied
from catis.demo.images import View
from catis.demo.workers import Workers

__all__ = ["VANILLA", "ModelScores", "Pass", "Tick", "Variant", "measure"]

Variant = tuple[str, int]
"""Method and r."""

VANILLA: Variant = ("vanilla", 0)

Tick = Callable[[float], None]
"""Called with the work just done, in images times blocks."""

Bools = NDArray[np.bool_]


class Pass(NamedTuple):
    """One batch: (B,) whether each image was classified rightly, and processor seconds."""

    right: Tensor
    seconds: float


class ModelScores:
    """Right or wrong, per image, of one model under any method and amount; each pass is made once.

    Args:
        name: Zoo name.
        depth: Its blocks.
        views: Images by view.
        batch: Images per forward pass.
        workers: Whose copies of the model run.
        tick: Told of the work done.

    Example:
        >>> from catis import zoo
        >>> from catis.demo.images import make_views
        >>> from catis.demo.settings import Settings
        >>> views = make_views(Settings(clean=6, shifted=3))
        >>> with Workers({"tiny-6": zoo.load("tiny-6")}) as workers:
        ...     scores = ModelScores("tiny-6", 6, views, 6, workers)
        ...     measure(workers, [(scores, "clean", [("tome", 4)])])
        >>> scores.correct("clean", ("tome", 4)).shape
        (6,)
    """

    def __init__(
        self,
        name: str,
        depth: int,
        views: Mapping[str, View],
        batch: int,
        workers: Workers,
        tick: Tick = lambda work: None,
    ) -> None:
        self.name, self.depth, self.views, self.batch = name, depth, views, batch
        self._workers, self._tick = workers, tick
        self._correct: dict[tuple[str, Variant], Bools] = {}
        self._seconds: dict[Variant, list[float]] = {}

    def tasks(self, view: str, variants: Sequence[Variant]) -> list[Callable[[], list[Pass]]]:
        """One task per batch: every variant in turn, timed, so that a slow moment of the machine hits them alike."""
        return [partial(self._in_turn, variants, *batch) for batch in self._batches(view)]

    def keep(self, view: str, variants: Sequence[Variant], batches: Sequence[Sequence[Pass]]) -> None:
        """Remember what the tasks returned."""
        for at, variant in enumerate(variants):
            passes = [batch[at] for batch in batches]
            self._correct[view, variant] = torch.cat([one.right for one in passes]).numpy()
            self._seconds.setdefault(variant, []).extend(one.seconds for one in passes)

    def correct(self, view: str, variant: Variant) -> Bools:
        """(n,) whether each image was classified rightly. What is not known yet is computed, by a worker only."""
        if (view, variant) not in self._correct:
            parts = [self._run(variant, *batch).right for batch in self._batches(view)]
            self._correct[view, variant] = torch.cat(parts).numpy()
        return self._correct[view, variant]

    def accuracy(self, view: str, variant: Variant) -> float:
        """Share of images classified rightly."""
        return float(self.correct(view, variant).mean())

    def tried(self, view: str, method: str) -> list[int]:
        """Amounts measured so far for a method."""
        known = list(self._correct)  # a copy, because other workers add to it
        return sorted(r for seen, (name, r) in known if seen == view and name == method)

    def speed_up(self, variant: Variant) -> tuple[float, float, float]:
        """Vanilla's time over the variant's on the same batch: median and quartiles over the batches."""
        ratios = [slow / fast for slow, fast in zip(self._seconds[VANILLA], self._seconds[variant], strict=True)]
        low, _, high = statistics.quantiles(ratios, n=4) if len(ratios) > 1 else (ratios[0],) * 3
        return statistics.median(ratios), low, high

    def rounds(self) -> int:
        """Batches behind each timing."""
        return len(self._seconds.get(VANILLA, ()))

    def _batches(self, view: str) -> Iterator[tuple[Tensor, Tensor]]:
        chosen = self.views[view]
        for start in range(0, len(chosen), self.batch):
            yield chosen.images[start : start + self.batch], chosen.labels[start : start + self.batch]

    def _in_turn(self, order: Sequence[Variant], images: Tensor, labels: Tensor) -> list[Pass]:
        return [self._run(variant, images, labels) for variant in order]

    def _run(self, variant: Variant, images: Tensor, labels: Tensor) -> Pass:
        method, r = variant
        model = self._workers.model(self.name)
        with nullcontext() if variant == VANILLA else applied(model, method, r=r), torch.inference_mode():
            # The thread's own processor time: what else the machine does, the other worker included, does not count.
            start = time.thread_time()
            logits: Tensor = model(images)
            seconds = time.thread_time() - start
        self._tick(len(images) * self.depth)
        return Pass(logits.argmax(-1) == labels, seconds)


def measure(workers: Workers, wanted: Sequence[tuple[ModelScores, str, Sequence[Variant]]]) -> None:
    """Run vanilla and the variants of every model and view, all batches shared among the workers."""
    orders = [[VANILLA, *variants] for _, _, variants in wanted]
    tasks = [scores.tasks(view, order) for (scores, view, _), order in zip(wanted, orders, strict=True)]
    done = iter(workers.run([task for group in tasks for task in group]))
    for (scores, view, _), order, group in zip(wanted, orders, tasks, strict=True):
        scores.keep(view, order, [next(done) for _ in group])
