"""Gives runs to the workers of a Ray cluster, begins them again when a worker dies, and writes what comes back.

A worker is a process that holds one model at a time. Only this process writes to the store, so a run that two workers
did, because one was thought dead, is there once.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
import torch

from catis.errors import CatisError
from catis.evaluate.loaded import LoadedModel
from catis.evaluate.run import Identity, evaluate_run
from catis.runs.predictions import Predictions
from catis.runs.record import Record
from catis.runs.spec import RunSpec
from catis.runs.store import Store
from catis.sweep.events import Events, attempt, describe
from catis.sweep.groups import Group, Task

RETRIES = 3
"""How often a run is begun again after its worker died."""


@dataclass(frozen=True)
class Shared:
    """References to what runs share; inside a dataclass, so that Ray leaves it to the worker to get them."""

    model: Any
    images: Any  # the prepared images, which all workers of a machine read from the same memory
    vanilla: Any = None  # predictions of the vanilla model, None for that run itself


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


class Hired(NamedTuple):
    """A worker that is up: Ray's handle and the id of its process."""

    handle: Any
    pid: int


@dataclass
class _Sent:
    """A run on its way, and how often its worker died."""

    task: Task
    group: _Open
    lost: int = 0


@dataclass
class _Open:
    """A group whose model and images are in the object store, and runs that wait for its vanilla one."""

    shared: Shared
    waiting: list[_Sent] = field(default_factory=list)


class Scheduler:
    """Keeps workers busy: runs of a group wait for its vanilla one, the next group is opened when a worker is idle."""

    def __init__(
        self, ray: Any, store: Store, events: Events, groups: Iterator[Group], hire: Callable[[int], list[Hired]]
    ) -> None:
        self._ray, self._store, self._events, self._groups, self._hire = ray, store, events, groups, hire
        self._idle: list[Hired] = []
        self._ready: deque[_Sent] = deque()
        self._running: dict[Any, tuple[Hired, _Sent]] = {}
        self._model: tuple[Any, Any] = (None, None)

    def run(self, workers: int) -> None:
        """Do everything with so many workers; none are started if there is nothing to do."""
        if self._has_ready():
            self._idle = self._hire(workers)
        while self._give_out():
            done, _ = self._ray.wait(list(self._running), num_returns=1)
            self._take_back(done[0], *self._running.pop(done[0]))

    def _has_ready(self) -> bool:
        """Whether a run may begin now; opens groups until one does."""
        while not self._ready:
            group = next(self._groups, None)
            if group is None:
                return False
            attempt(self._events, [task.job for task in group.todo], self._put, group)
        return True

    def _put(self, group: Group) -> None:
        if self._model[0] is not group.model:
            self._model = group.model, self._ray.put(group.model)
        images = group.images.prepared(group.todo[0].job.spec.batch_size)
        for note in group.images.notes:
            self._events.noted(note)
        in_memory = replace(images, pixels=np.asarray(images.pixels))  # a mapped file is not what workers can share
        vanilla = None if group.vanilla is None else self._ray.put(group.vanilla)
        opened = _Open(Shared(self._model[1], self._ray.put(in_memory), vanilla))
        tasks = [_Sent(task, opened) for task in group.todo]
        if vanilla is not None or not group.todo[0].job.is_vanilla:
            self._ready.extend(tasks)
        else:
            self._ready.append(tasks[0])
            opened.waiting = tasks[1:]

    def _give_out(self) -> bool:
        """Give every idle worker a run, as far as there are any; whether some are running then."""
        while self._idle and self._has_ready():
            worker, sent = self._idle.pop(), self._ready.popleft()
            job, identity = sent.task
            self._events.started(job, worker.pid)
            self._running[worker.handle.run.remote(job.spec, identity, sent.group.shared)] = worker, sent
        if self._ready and not self._running:
            raise CatisError("no worker is left and none could be started; run the same command again to go on")
        return bool(self._running)

    def _take_back(self, reference: Any, worker: Hired, sent: _Sent) -> None:
        """Write what came of a run; begin it again, with a new worker, if its worker died."""
        errors = self._ray.exceptions
        try:
            record, predictions = self._ray.get(reference)
        except errors.RayTaskError as error:
            self._idle.append(worker)
            self._fail(sent, describe(error.cause if isinstance(error.cause, BaseException) else error))
        except errors.RayError as error:  # of the cluster, not of the run
            self._idle += self._hire(1)
            self._again(sent, describe(error))
        else:
            self._idle.append(worker)
            written = attempt(self._events, [sent.task.job], self._store.write, record, predictions)
            if written is not None:
                self._events.finished(sent.task.job, written)
            self._release(sent.group, predictions)

    def _again(self, sent: _Sent, reason: str) -> None:
        sent.lost += 1
        if sent.lost > RETRIES:
            self._fail(sent, f"its worker died {sent.lost} times; the last time: {reason}")
        else:
            self._events.lost(sent.task.job, reason)
            self._ready.appendleft(sent)

    def _fail(self, sent: _Sent, error: str) -> None:
        self._events.failed(sent.task.job, error)
        for other in sent.group.waiting:
            self._events.failed(other.task.job, "the vanilla run that it is compared with failed")
        sent.group.waiting = []

    def _release(self, group: _Open, predictions: Predictions) -> None:
        """The vanilla run of a group is done, so the others may go."""
        if group.waiting:
            group.shared = replace(group.shared, vanilla=self._ray.put(predictions))
            self._ready.extend(group.waiting)
            group.waiting = []
