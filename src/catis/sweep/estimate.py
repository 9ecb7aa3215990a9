"""How long a plan will take: vanilla is timed shortly on each model, and the rest follows from multiply-adds."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from catis import hosts
from catis.data.video_lists import ClipData
from catis.evaluate.predict import predict
from catis.evaluate.prepared import Labels, PreparedImages
from catis.runs.spec import RunSpec
from catis.sweep.costs import skeleton
from catis.sweep.jobs import Job

LARGEST = 4e9
"""Bytes of weights above which a model is not built for a timing."""
PROBE = 30.0
"""GMACs of one timed batch, at least one image: short, and long enough for all threads to be busy."""


@dataclass(frozen=True)
class Estimate:
    """Seconds that each run will take, None where that is not known, and how they were found."""

    seconds: Sequence[float | None]
    how: Sequence[str]


def estimate(jobs: Sequence[Job], gmacs: Sequence[float], images: Sequence[int | None]) -> Estimate:
    """Estimate the time of each run on this machine.

    Random weights take the same time as trained ones, so none are loaded. A model too large to be built for this gets
    the rate of the largest one that was timed. Reading images and choosing tokens are not counted.

    Args:
        jobs: The runs.
        gmacs: Of one image in each run.
        images: How many images each run has, None where that is not known.

    Example:
        >>> from catis.runs.spec import DataSpec, ModelSpec
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
        if _weight_bytes(spec) > LARGEST:
            nearest = next(reversed(rates), None)
            if nearest is not None:
                rates[label] = rates[nearest]
            how.append(f"{label}: too large to be timed here, " + (f"rate of {nearest}" if nearest else "not known"))
            continue
        batch = max(1, min(spec.batch_size, int(PROBE / cost)))
        rates[label] = cost * batch / _seconds(spec, batch)
        how.append(f"{label}: {rates[label] / cost:.3g} images/s, vanilla, batch {batch}")
    return rates, how


def _weight_bytes(spec: RunSpec) -> int:
    return sum(4 * weight.numel() for weight in skeleton(spec.model).parameters())


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
