"""Opens what runs share, each once: a model, a data set prepared for it, the predictions of the vanilla model."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import NamedTuple

from catis.evaluate.cache import ImageCache
from catis.evaluate.images import StreamedImages
from catis.evaluate.loaded import LoadedModel, load
from catis.evaluate.run import Identity, identify
from catis.runs.predictions import Predictions
from catis.runs.record import DamagedRecordError
from catis.runs.store import Store
from catis.sweep.events import Events, attempt
from catis.sweep.jobs import Job


class Task(NamedTuple):
    """A run that is to be done, and what it is."""

    job: Job
    identity: Identity


@dataclass(frozen=True)
class Group:
    """Runs of one model on one data set that are still to be done."""

    model: LoadedModel
    images: StreamedImages  # the data set, prepared for it
    todo: list[Task]  # the runs; the vanilla one first, unless its predictions are known or nobody asked for it
    vanilla: Predictions | None  # predictions of the vanilla model, if the store has them


def open_groups(
    jobs: Sequence[Job],
    store: Store | None,
    events: Events,
    *,
    force: bool = False,
    cache: ImageCache | None = None,
    workers: int = 1,
) -> Iterator[Group]:
    """Groups with anything left to do, in the order of the jobs, each opened when it is asked for.

    The runs of one model and one data set stand next to each other, the vanilla one first. `events` is told of those
    that are done already, and of those whose model or data cannot be opened.
    """
    seen: set[str] = set()
    for label, of_model in groupby(jobs, key=lambda job: job.model):
        mine = list(of_model)
        events.preparing(label)
        model = attempt(events, mine, load, mine[0].spec.model, mine[0].spec.seed)
        if model is None:
            continue
        for title, of_data in groupby(mine, key=lambda job: job.data):
            events.preparing(f"{label} {title}")
            group = list(of_data)
            images = attempt(events, group, model.images, group[0].spec, workers=workers, cache=cache)
            if images is not None:
                tasks = _identified(group, model, images, events)
                opened = _unfinished(tasks, model, images, store, force, seen, events)
                if opened.todo:
                    yield opened


def _identified(jobs: Sequence[Job], model: LoadedModel, images: StreamedImages, events: Events) -> list[Task]:
    tasks = []
    for job in jobs:
        identity = attempt(events, [job], identify, job.spec, model, images)
        if identity is not None:
            tasks.append(Task(job, identity))
    return tasks


def _unfinished(
    tasks: Sequence[Task],
    model: LoadedModel,
    images: StreamedImages,
    store: Store | None,
    force: bool,
    seen: set[str],
    events: Events,
) -> Group:
    """What is left to do; two entries of a plan that come to the same run are one run."""
    vanilla = None if force and tasks and tasks[0].job.is_vanilla else _stored_vanilla(tasks, model, images, store)
    todo = []
    for task in tasks:
        name = task.identity.name
        known = vanilla is not None if task.job.is_vanilla else store is not None and store.has(name)
        if name in seen or (known and not force):
            events.known(task.job, name)
        else:
            todo.append(task)
        seen.add(name)
    return Group(model, images, todo, vanilla)


def _stored_vanilla(
    tasks: Sequence[Task], model: LoadedModel, images: StreamedImages, store: Store | None
) -> Predictions | None:
    """Predictions of the vanilla model, if its run is in the store and whole."""
    if store is None or not tasks:
        return None
    job, identity = tasks[0]
    if not job.is_vanilla:
        identity = identify(job.spec.vanilla, model, images)
    try:
        return store.predictions(identity.name)
    except (FileNotFoundError, DamagedRecordError):  # not done yet, or to be done again
        return None
