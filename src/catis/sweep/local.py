"""Runs a sweep in this process, one run after the other."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial

import torch

from catis.evaluate.cache import ImageCache
from catis.evaluate.loaded import LoadedModel
from catis.evaluate.prepared import Images
from catis.evaluate.run import evaluate_run
from catis.runs.predictions import Predictions
from catis.runs.store import Store
from catis.sweep.events import Events, attempt
from catis.sweep.groups import Group, open_groups
from catis.sweep.jobs import Job

__all__ = ["run_here", "threads_set"]


def run_here(
    jobs: Sequence[Job],
    store: Store,
    events: Events,
    *,
    threads: int | None = None,
    cache: ImageCache | None = None,
    workers: int = 1,
) -> None:
    """Do all runs that the store does not have. One that fails is told to `events`, and the others go on.

    Args:
        jobs: From `expand`.
        store: Where records go, each as soon as its run is done.
        events: Told of everything that happens.
        threads: Of torch, for each run; None leaves them as they are.
        cache: Where prepared images are kept; None keeps those of one data set at a time in memory.
        workers: Threads that decode images.

    Example:
        >>> import tempfile
        >>> from catis.runs.spec import DataSpec, ModelSpec, RunSpec
        >>> spec = RunSpec(ModelSpec("tiny-6"), DataSpec("zoo-clean", limit=24))
        >>> events = Events()
        >>> run_here([Job("small", "vanilla", "zoo-clean", spec)], Store(tempfile.mkdtemp()), events)
        >>> [record.n_read for _, record in events.records]
        [24]
    """
    with threads_set(threads):
        for group in open_groups(jobs, store, events, cache=cache, workers=workers):
            _run_group(group, store, events)


def _run_group(group: Group, store: Store, events: Events) -> None:
    images = attempt(events, [job for _, job in group.todo], _images, group)
    vanilla = group.vanilla
    for name, job in group.todo if images is not None else []:
        if not job.is_vanilla and vanilla is None:
            events.failed(job, "the vanilla run that it is compared with failed")
        elif not job.is_vanilla and store.has(name):  # another process was quicker
            events.found(job)
        else:
            events.started(job, os.getpid())
            done = attempt(events, [job], _run, job, group.model, images, vanilla, store, events)
            vanilla = done if done is not None and job.is_vanilla else vanilla
    for note in group.images.notes:
        events.noted(note)


def _images(group: Group) -> Images:
    """Images that are decoded once: into the cache during the first run, or into memory now if there is none."""
    return group.images if group.images.cache is not None else group.images.prepared(group.todo[0][1].spec.batch_size)


def _run(
    job: Job, model: LoadedModel, images: Images, vanilla: Predictions | None, store: Store, events: Events
) -> Predictions:
    progress = partial(events.advanced, job)
    record, predictions = evaluate_run(job.spec, model=model, images=images, vanilla=vanilla, progress=progress)
    events.finished(job, store.write(record, predictions))
    return predictions


@contextmanager
def threads_set(threads: int | None) -> Iterator[None]:
    """Torch with so many threads for the length of a with-block."""
    before = torch.get_num_threads()
    torch.set_num_threads(threads or before)
    try:
        yield
    finally:
        torch.set_num_threads(before)
