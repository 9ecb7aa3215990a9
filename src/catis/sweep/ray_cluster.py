"""Runs a sweep on a Ray cluster: connects, starts workers, and hands them to the scheduler."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from typing import Any

import torch

from catis.errors import CatisError, require
from catis.evaluate.cache import ImageCache
from catis.runs.store import Store
from catis.sweep.events import Events, describe
from catis.sweep.groups import open_groups
from catis.sweep.jobs import Job
from catis.sweep.ray_scheduler import Hired, Scheduler, Worker

START = 120.0
"""Seconds that a new worker may take to start, or to find a free place in the cluster."""


def run_on_ray(
    jobs: Sequence[Job],
    store: Store,
    events: Events,
    address: str,
    *,
    threads: int | None = None,
    cache: ImageCache | None = None,
    workers: int = 1,
) -> None:
    """Do all runs that the store does not have, on the workers of a cluster; otherwise as `run_here`.

    Only this process reads checkpoints and images and writes to the store, so workers need nothing but catis.

    Args:
        jobs: As for `run_here`, and so are the others that are not named here.
        address: Of a cluster; "auto" for the one this machine belongs to, "local" to start one for this sweep.
        threads: Of torch, for each run; None for as many as `run_here` would take. A worker takes as many CPUs.

    Raises:
        CatisError: There is no such cluster, or no worker could be started.
    """
    require("a sweep on Ray", "ray", "ray")
    threads = threads or torch.get_num_threads()
    with connected(address) as ray:
        groups = open_groups(jobs, store, events, cache=cache, workers=workers)
        crew = _Crew(ray, threads, jobs[0].spec.device)
        Scheduler(ray, store, events, groups, crew.hire).run(min(crew.places(), len(jobs)))


@contextmanager
def connected(address: str) -> Iterator[Any]:
    """Ray, connected to a cluster; a connection that is there already is used and left as it is."""
    ray: Any = import_module("ray")
    if ray.is_initialized():
        yield ray
        return
    options: dict[str, Any] = {}
    if address == "local":
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # nothing goes to the network
        os.environ.setdefault("RAY_worker_niceness", "0")  # Ray's 15 would make a busy machine wait for ever
        options = {"include_dashboard": False}
    try:
        ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR, **options)
    except (ConnectionError, ValueError, RuntimeError) as error:
        raise CatisError(f"no Ray cluster at {address!r}: {describe(error)}") from error
    try:
        yield ray
    finally:
        ray.shutdown()


class _Crew:
    """Starts workers of one kind: so many threads each, or one GPU each."""

    def __init__(self, ray: Any, threads: int, device: str) -> None:
        self._ray, self._threads, self._gpus = ray, threads, 0 if device == "cpu" else 1
        # Ray would start a dead worker again with nobody knowing; the scheduler has to know.
        self._kind = ray.remote(num_cpus=threads, num_gpus=self._gpus, max_restarts=0)(Worker)

    def places(self) -> int:
        """Workers that the cluster has room for."""
        alive = [node["Resources"] for node in self._ray.nodes() if node["Alive"]]
        unit, needed = ("GPU", 1) if self._gpus else ("CPU", self._threads)
        room = sum(int(node.get(unit, 0) // needed) for node in alive)
        if room < 1:
            has = ", ".join(f"{node.get(unit, 0):g}" for node in alive)
            raise CatisError(f"a worker needs {needed} {unit}s, the machines of the cluster have {has}: pass --threads")
        return room

    def hire(self, count: int) -> list[Hired]:
        """Start workers; fewer if some find no place in time, none at all is an error."""
        started = [self._kind.remote(self._threads) for _ in range(count)]
        asked = {worker.pid.remote(): worker for worker in started}
        ready, late = self._ray.wait(list(asked), num_returns=count, timeout=START)
        for reference in late:
            self._ray.kill(asked[reference])
        try:
            return [Hired(asked[reference], self._ray.get(reference)) for reference in ready]
        except self._ray.exceptions.RayError as error:
            raise CatisError(
                f"a worker could not start: {describe(error)}; catis must be installed on every machine of the cluster"
            ) from error
