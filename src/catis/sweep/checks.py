"""Looks whether the files that runs need are there, and how many images each data set has, before anything runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from catis.errors import CatisError
from catis.evaluate.clips import count_items
from catis.runs.data_names import CORRUPTED
from catis.runs.spec import DataSpec
from catis.sweep.jobs import Job


@dataclass(frozen=True)
class Inputs:
    """How many images each run has, None where they are not there; and what is missing, one line each."""

    images: Sequence[int | None]
    problems: Sequence[str]


def look_for_inputs(jobs: Sequence[Job]) -> Inputs:
    """Count the images of every data set and look for every checkpoint; nothing is opened.

    Example:
        >>> from catis.runs.spec import ModelSpec, RunSpec
        >>> spec = RunSpec(ModelSpec("tiny-6", checkpoint="/none.safetensors"), DataSpec("zoo-clean", limit=24))
        >>> inputs = look_for_inputs([Job("small", "vanilla", "zoo-clean", spec)])
        >>> inputs.images, inputs.problems
        ([24], ['models.small: checkpoint /none.safetensors is not there'])
    """
    problems: dict[str, None] = {}  # a set that keeps its order
    counts: dict[tuple[str, str | None, int | None], int | None] = {}
    for job in jobs:
        checkpoint, data = job.spec.model.checkpoint, job.spec.data
        if checkpoint is not None and not Path(checkpoint).is_file():
            problems[f"models.{job.model}: checkpoint {checkpoint} is not there"] = None
        if data.class_map is not None and not Path(data.class_map).is_file():
            problems[f"data {data.title}: class_map {data.class_map} is not there"] = None
        if _folder(data) is not None and not Path(str(_folder(data))).is_dir():
            problems[f"data {data.title}: folder {_folder(data)} is not there"] = None
        elif _key(data) not in counts:
            counts[_key(data)] = _count(data, problems)
    return Inputs([counts.get(_key(job.spec.data)) for job in jobs], list(problems))


def _key(data: DataSpec) -> tuple[str, str | None, int | None]:
    """Corrupted versions of a set have as many images as the set."""
    return data.name, data.root, data.limit


def _folder(data: DataSpec) -> Path | None:
    if data.root is None:
        return None
    return Path(data.root, str(data.corruption), str(data.severity)) if data.name == CORRUPTED else Path(data.root)


def _count(data: DataSpec, problems: dict[str, None]) -> int | None:
    try:
        return count_items(data)
    except (CatisError, ValueError, OSError) as error:
        problems[f"data {data.title}: {error}"] = None
        return None
