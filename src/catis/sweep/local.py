"""Runs a sweep in this process, one run after the other."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial

import torch

from catis.evaluate.cache import ImageCache
from catis.evaluate.images import Images
from catis.evaluate.run import evaluate_run
from catis.runs.predictions import Predictions
from catis.runs.store import Store
from catis.sweep.events import Events, attempt
from catis.sweep.groups import Group, Task, open_groups
from catis.sweep.jobs import Job

IN_MEMORY = 2 * 10**9
"""Bytes of prepared images that are held in memory where there is no cache; larger sets are decoded for every run."""


def run_here(
    jobs: Sequence[Job],
    store: Store | None,
    events: Events,
    *,
    force: bool = False,
    retry: bool = True,
    threads: int | None = None,
    cache: ImageCache | None = None,
    workers: int = 1,
) -> None:
    """Do all runs that the store does not have. One that fails is told to `events`, and the others go on.

    Args:
        store: Where records go, each as soon as its run is done; None keeps them in `events` only.
        retry: Whether to go on with smaller batches when memory runs out.
        threads: Of torch, for each run; None leaves them as they are.
        cache: Where prepared images are kept; None holds small sets in memory, one at a time.

    Example:
        >>> from catis.runs.spec import DataSpec, ModelSpec, RunSpec
        >>> spec = RunSpec(ModelSpec("tiny-6"), DataSpec("zoo-clean", limit=24))
        >>> events = Events()
        >>> run_here([Job("small", "vanilla", "zoo-clean", spec)], None, events)
        >>> [record.n_read for _, record in events.records]
        [24]
    """
    with threads_set(threads):
        for group in open_groups(jobs, store, events, force=force, cache=cache, workers=workers):
            _run_group(group, store, events, force, retry)


def _run_group(group: Group, store: Store | None, events: Events, force: bool, retry: bool) -> None:
    images = attempt(events, [task.job for task in group.todo], _images, group)
    vanilla, vanilla_failed = group.vanilla, False
    for task in group.todo if images is not None else []:
        job, identity = task
        if vanilla_failed:
            events.failed(job, "the vanilla run that it is compared with failed")
        elif not (force or job.is_vanilla or store is None) and store.has(identity.name):  # another was quicker
            events.known(job, identity.name)
        else:
            events.started(job, os.getpid())
            done = attempt(events, [job], _run, task, group, images, vanilla, store, events, retry)
            if job.is_vanilla:
                vanilla, vanilla_failed = done, done is None
    for note in group.images.notes:
        events.noted(note)
    group.images.notes.clear()


def _images(group: Group) -> Images:
    """Images that are decoded once: into the cache during the first run, or into memory now if there is none."""
    size = len(group.images.about.names) * math.prod(group.images.data.shape)
    if group.images.cache is not None or len(group.todo) == 1 or size > IN_MEMORY:
        return group.images
    return group.images.prepared(group.todo[0].job.spec.batch_size)


def _run(
    task: Task,
    group: Group,
    images: Images,
    vanilla: Predictions | None,
    store: Store | None,
    events: Events,
    retry: bool,
) -> Predictions:
    record, predictions = evaluate_run(
        task.job.spec,
        model=group.model,
        images=images,
        identity=task.identity,
        vanilla=vanilla,
        retry=retry,
        progress=partial(events.advanced, task.job),
    )
    events.finished(task.job, record if store is None else store.write(record, predictions))
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
