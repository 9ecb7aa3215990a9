"""Two threads that share the work, each with its own copy of the models and one thread for arithmetic.

Which worker computes what changes no result: a pass runs in one thread from end to end, so the order of every sum is
fixed. It is also faster than two threads inside each operation, because these models are small.
"""

from __future__ import annotations

import copy
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import torch
from torch import nn

NUMBER = 2


class _StoppedError(RuntimeError):
    """A worker was asked to end."""


class Task(NamedTuple):
    """Something to compute, and about how much work that is, in images times blocks."""

    work: float
    compute: Callable[[], Any]


class Workers:
    """A pool whose threads own copies of the models; leaving it, also by Ctrl-C, ends the work after this pass.

    Example:
        >>> with Workers({"net": nn.Linear(2, 2)}) as workers:
        ...     list(workers.run([Task(1, lambda: workers.model("net").in_features)] * 3))
        [2, 2, 2]
    """

    def __init__(self, models: Mapping[str, nn.Module]) -> None:
        self._copies = [copy.deepcopy(dict(models)) for _ in range(NUMBER)]
        self._own, self._end = threading.local(), threading.Event()
        self._pool = ThreadPoolExecutor(NUMBER, "catis-demo", self._begin)

    def _begin(self) -> None:
        torch.set_num_threads(1)
        self._own.models = self._copies.pop()

    def __enter__(self) -> Workers:
        return self

    def __exit__(self, *error: object) -> None:
        self._end.set()
        self._pool.shutdown(cancel_futures=True)

    def model(self, name: str) -> nn.Module:
        """The copy that belongs to the worker that asks."""
        if self._end.is_set():
            raise _StoppedError
        model: nn.Module = self._own.models[name]
        return model

    def run(self, tasks: Sequence[Task]) -> Iterator[Any]:
        """Results in the order of the tasks, which start in that order too, each as soon as it is there."""
        for future in [self._pool.submit(task.compute) for task in tasks]:
            yield future.result()
