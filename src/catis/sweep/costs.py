"""What each run costs: multiply-adds from shapes alone, and the time that follows from timing vanilla shortly.

A model or amount that cannot be used is refused here.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from torch import nn

from catis import hosts
from catis.core.reduction import Reduction
from catis.data.video_lists import ClipData
from catis.errors import CatisError
from catis.evaluate.predict import predict
from catis.evaluate.prepared import Labels, PreparedImages
from catis.macs import gmacs
from catis.runs.spec import ModelSpec, RunSpec
from catis.sweep.jobs import Job
from catis.sweep.table import PlanError

LARGEST = 4e9
"""Bytes of weights above which a model is not built for a timing."""
PROBE = 30.0
"""GMACs of one timed batch, at least one image: short, and long enough for all threads to be busy."""


def costs(file: Path, jobs: Sequence[Job]) -> list[float]:
    """GMACs per image of each run. Models are built without weights, each once.

    Example:
        >>> from catis.runs.spec import DataSpec
        >>> spec = RunSpec(ModelSpec("vit_small_patch16_224"), DataSpec("zoo-clean"), Reduction.of("tome", 13))
        >>> [round(cost, 2) for cost in costs(Path("plan.toml"), [Job("vit-s", "tome", "zoo-clean", spec)])]
        [2.7]
    """
    models: dict[str, nn.Module] = {}
    counted: dict[tuple[str, Reduction], float] = {}  # the same for all data sets
    for job in jobs:
        if job.model not in models:
            models[job.model] = _checked(f"{file}, models.{job.model}", skeleton, job.spec.model)
        if _key(job) not in counted:
            counted[_key(job)] = _checked(f"{file}, {job.label}", gmacs, models[job.model], job.spec.reduction)
    return [counted[_key(job)] for job in jobs]


def skeleton(spec: ModelSpec, device: str = "meta") -> nn.Module:
    """The model without its weights: none at all on the meta device, random ones elsewhere."""
    from catis.models import build_model

    return build_model(spec.name, device=device, **spec.built_with).eval()


def _checked(where: str, make: Callable[..., Any], *arguments: Any) -> Any:
    """Call something that checks its arguments, and say where in the plan they are written if it refuses."""
    try:
        return make(*arguments)
    except (ValueError, CatisError) as error:
        raise PlanError(f"{where}: {error}") from error


def _key(job: Job) -> tuple[str, Reduction]:
    return job.model, job.spec.reduction


@dataclass(frozen=True)
class Estimate:
    """Seconds that each run will take, None where that is not known, and how they were found."""

    seconds: Sequence[float | None]
    how: Sequence[str]


def estimate(jobs: Sequence[Job], gmacs: Sequence[float], images: Sequence[int | None]) -> Estimate:
    """Estimate the time of each run on this machine.

    Random weights take the same time as trained ones, so none are loaded. A model too large to be built for this gets
    the rate of the largest one that was timed. Reading images and choosing tokens are not counted.

    Example:
        >>> from catis.runs.spec import DataSpec
        >>> spec = RunSpec(ModelSpec("tiny-6"), DataSpec("zoo-clean"), batch_size=2)
        >>> estimate([Job("small", "vanilla", "zoo-clean", spec)], [0.12], [100]).seconds[0] > 0
        True
    """
    rates, how = _rates(jobs, gmacs)
    seconds = [
        None if count is None or job.model not in rates else count * _views(job) * cost / rates[job.model]
        for job, cost, count in zip(jobs, gmacs, images, strict=True)
    ]
    return Estimate(seconds, how)


def _views(job: Job) -> int:
    clips = ClipData.parse(job.spec.data.name)
    return 1 if clips is None else clips.segments * clips.crops


def _rates(jobs: Sequence[Job], gmacs: Sequence[float]) -> tuple[dict[str, float], list[str]]:
    """GMACs per second of each model, and a line about each."""
    vanilla = {job.model: (job.spec, cost) for job, cost in zip(jobs, gmacs, strict=True) if job.is_vanilla}
    rates: dict[str, float] = {}
    how = []
    for label, (spec, cost) in sorted(vanilla.items(), key=lambda item: item[1][1]):
        if sum(4 * weight.numel() for weight in skeleton(spec.model).parameters()) > LARGEST:
            nearest = next(reversed(rates), None)
            if nearest is not None:
                rates[label] = rates[nearest]
            how.append(f"{label}: too large to be timed here, " + (f"rate of {nearest}" if nearest else "not known"))
            continue
        batch = max(1, min(spec.batch_size, int(PROBE / cost)))
        rates[label] = cost * batch / _seconds(spec, batch)
        how.append(f"{label}: {rates[label] / cost:.3g} images/s, vanilla, batch {batch}")
    return rates, how


def _seconds(spec: RunSpec, batch: int) -> float:
    """Of the faster of two passes over blank images, after one that warms up."""
    model = skeleton(spec.model, device="cpu")
    prepared = hosts.find(model).preprocessing()
    clip = () if prepared.frames is None else (1, prepared.frames)
    about = Labels([str(place) for place in range(batch)], np.zeros(batch, np.int64), None, "")
    blank = PreparedImages(about, np.zeros((batch, *clip, *prepared.size, 3), np.uint8), {})
    once = replace(spec, batch_size=batch, compile=False)
    times = []
    for _ in range(3):
        start = time.perf_counter()
        predict(model, blank, prepared, once)
        times.append(time.perf_counter() - start)
    return min(times[1:])
