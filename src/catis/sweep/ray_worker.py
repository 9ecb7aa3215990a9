"""What runs inside a worker of a Ray cluster: a process that holds one model at a time."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

import torch

from catis.evaluate.loaded import LoadedModel
from catis.evaluate.run import Identity, evaluate_run
from catis.runs.predictions import Predictions
from catis.runs.record import Record
from catis.runs.spec import RunSpec


@dataclass(frozen=True)
class Shared:
    """References to what a run shares with others; inside a dataclass, so that Ray leaves it to the worker to get them.

    Attributes:
        model: The loaded model.
        images: The prepared images, which all workers of a machine read from the same memory.
        vanilla: Predictions of the vanilla model, None for that run itself.
    """

    model: Any
    images: Any
    vanilla: Any = None


class Worker:
    """Does runs one after the other, with a fixed number of threads, as a local sweep does."""

    def __init__(self, threads: int) -> None:
        torch.set_num_threads(threads)
        self._held: Any = None
        self._model: LoadedModel | None = None

    def pid(self) -> int:
        """Its process, once it is up."""
        return os.getpid()

    def run(self, spec: RunSpec, identity: Identity, shared: Shared) -> tuple[Record, Predictions]:
        """One run."""
        import ray

        if shared.model != self._held:
            self._model = None  # two large models at once may be too much
            self._held, self._model = shared.model, ray.get(shared.model)
        vanilla = None if shared.vanilla is None else ray.get(shared.vanilla)
        images = ray.get(shared.images)
        return evaluate_run(spec, model=self._model, images=images, identity=identity, vanilla=vanilla)
