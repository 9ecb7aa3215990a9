"""Works out distances on a Ray cluster: every worker holds the model and the images, candidates are handed around."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch

from catis.errors import require
from catis.sweep.ray_cluster import connected
from catis.tuning.objective import Objective
from catis.tuning.questions import Answer, Question, local_answers


class _Worker:
    """Compares on a worker, with as many threads as it was given."""

    def __init__(self, objectives: Mapping[str, Objective], threads: int) -> None:
        torch.set_num_threads(threads)
        self._answer = local_answers(objectives)

    def answer(self, question: Question) -> float:
        """Distance from vanilla."""
        return self._answer([question])[0]

    def pid(self) -> int:
        """Process it runs in."""
        return os.getpid()


@contextmanager
def answers(address: str | None, objectives: Mapping[str, Objective], threads: int = 1) -> Iterator[Answer]:
    """What works out distances: here, or on all CPUs of a cluster.

    Args:
        address: Of a cluster, as for `catis sweep --ray`; None for here.
        objectives: By the name that questions give the images.
        threads: Of torch, for each worker of a cluster.

    Raises:
        MissingExtraError: Ray is not installed.
        CatisError: There is no such cluster.
    """
    if address is None:
        yield local_answers(objectives)
        return
    require("tuning on Ray", "ray", "ray")
    with connected(address) as ray:
        places = max(1, int(ray.cluster_resources().get("CPU", 1)) // threads)
        shared = ray.put(dict(objectives))
        kind = ray.remote(num_cpus=threads, max_restarts=-1, max_task_retries=-1)(_Worker)  # a dead one comes back
        workers = [kind.remote(shared, threads) for _ in range(places)]
        try:
            yield _in_turn(ray, workers)
        finally:
            for worker in workers:
                ray.kill(worker)


def _in_turn(ray: Any, workers: Sequence[Any]) -> Answer:
    def answer(questions: Sequence[Question]) -> Sequence[float]:
        asked = [workers[place % len(workers)].answer.remote(question) for place, question in enumerate(questions)]
        return [float(value) for value in ray.get(asked)]

    return answer
