"""Opens what runs share, each once: a model, a data set prepared for it, the predictions of the plain model."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from catis.evaluate.cache import ImageCache
from catis.evaluate.images import StreamedImages
from catis.evaluate.loaded import LoadedModel, load
from catis.evaluate.run import name_run
from catis.runs.predictions import Predictions
from catis.runs.record import DamagedRecordError
from catis.runs.store import Store
from catis.sweep.events import Events, attempt
from catis.sweep.jobs import Job

__all__ = ["Group", "open_groups"]


@dataclass(frozen=True)
class Group:
    """Runs of one model on one data set that are still to be done.

    Attributes:
        model: The model.
        images: The data set, prepared for it.
        todo: Names and runs; the plain one first, unless the store has its predictions.
        vanilla: Predictions of the plain model, if the store has them.
    """

    model: LoadedModel
    images: StreamedImages
    todo: list[tuple[str, Job]]
    vanilla: Predictions | None


def open_groups(
    jobs: Sequence[Job], store: Store, events: Events, *, cache: ImageCache | None = None, workers: int = 1
) -> Iterator[Group]:
    """Groups with anything left to do, in the order of the jobs, each opened when it is asked for.

    Args:
        jobs: Runs, those of one model and of one data set next to each other, the plain one first.
        store: What is done already.
        events: Told of runs that are done already and of those whose model or data cannot be opened.
        cache: Where prepared images are kept.
        workers: Threads that decode images.
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
            opened = attempt(events, group, _open, group[0], model, store, cache, workers)
            todo = [] if opened is None else _unfinished(opened, group, store, seen, events)
            if opened is not None and todo:
                yield replace(opened, todo=todo)


def _open(job: Job, model: LoadedModel, store: Store, cache: ImageCache | None, workers: int) -> Group:
    images = model.images(job.spec, workers=workers, cache=cache)
    return Group(model, images, [], _stored_predictions(store, name_run(job.spec.vanilla, model, images)))


def _stored_predictions(store: Store, name: str) -> Predictions | None:
    try:
        return store.predictions(name)
    except (FileNotFoundError, DamagedRecordError):  # not done yet, or to be done again
        return None


def _unfinished(
    group: Group, jobs: Sequence[Job], store: Store, seen: set[str], events: Events
) -> list[tuple[str, Job]]:
    """What is left to do; two entries of a plan that come to the same run are one run."""
    todo = []
    for job in jobs:
        name = attempt(events, [job], name_run, job.spec, group.model, group.images)
        if name is None:
            continue
        done = group.vanilla is not None if job.is_vanilla else store.has(name)
        if done or name in seen:
            events.found(job)
        else:
            todo.append((name, job))
        seen.add(name)
    return todo
