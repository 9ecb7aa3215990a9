"""Looks at a plan before it runs: are its files there, what does each run cost, what is done, how long is the rest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from catis.errors import CatisError
from catis.evaluate.sources import count_items
from catis.runs.spec import DataSpec
from catis.runs.store import Store
from catis.sweep.costs import costs, estimate
from catis.sweep.events import Events
from catis.sweep.groups import open_groups
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
        if data.folder is not None and not data.folder.is_dir():
            problems[f"data {data.title}: folder {data.folder} is not there"] = None
        elif _key(data) not in counts:
            counts[_key(data)] = _count(data, problems)
    return Inputs([counts.get(_key(job.spec.data)) for job in jobs], list(problems))


def _key(data: DataSpec) -> tuple[str, str | None, int | None]:
    """Corrupted versions of a set have as many images as the set."""
    return data.name, data.root, data.limit


def _count(data: DataSpec, problems: dict[str, None]) -> int | None:
    try:
        return count_items(data)
    except (CatisError, ValueError, OSError) as error:
        problems[f"data {data.title}: {error}"] = None
        return None


@dataclass(frozen=True)
class PreviewLine:
    """One run of a dry run."""

    job: Job
    gmacs: float  # of one image
    share: float  # of the vanilla model's GMACs
    images: int | None  # how many there are; None if they are not there
    seconds: float | None  # estimated; None if that is not known, 0 if it is done
    state: str  # "done", "to do", or "not known" where weights would have to be fetched to tell


@dataclass(frozen=True)
class Preview:
    """A dry run: its runs, the files that must be there before anything can be run, and how times were estimated."""

    lines: Sequence[PreviewLine]
    problems: Sequence[str]
    how: Sequence[str]


def preview(file: Path, jobs: Sequence[Job], store: Path) -> Preview:
    """Look at a plan without running it. Nothing is written, and no weights are fetched.

    Example:
        >>> from catis.runs.spec import ModelSpec, RunSpec
        >>> spec = RunSpec(ModelSpec("tiny-6"), DataSpec("zoo-clean", limit=24), batch_size=2)
        >>> seen = preview(Path("plan.toml"), [Job("small", "vanilla", "zoo-clean", spec)], Path("no-store"))
        >>> [(line.images, line.share, line.state) for line in seen.lines]
        [(24, 1.0, 'to do')]
    """
    gmacs, inputs = costs(file, jobs), look_for_inputs(jobs)
    done = _done(jobs, store) if not inputs.problems else set()
    times = estimate(jobs, gmacs, inputs.images)
    vanilla = {job.model: cost for job, cost in zip(jobs, gmacs, strict=True) if job.is_vanilla}
    lines = []
    for job, cost, images, seconds in zip(jobs, gmacs, inputs.images, times.seconds, strict=True):
        state = "done" if job.label in done else "not known" if job.spec.model.pretrained else "to do"
        left = 0.0 if state == "done" else seconds
        lines.append(PreviewLine(job, cost, cost / vanilla[job.model], images, left, state))
    return Preview(lines, inputs.problems, times.how)


def _done(jobs: Sequence[Job], store: Path) -> set[str]:
    """Labels of runs that the store has, as far as that can be told without fetching weights."""
    local = [job for job in jobs if not job.spec.model.pretrained]
    if not store.is_dir():
        return set()
    events = Events()
    for _ in open_groups(local, Store(store), events):
        pass
    return {job.label for job, _ in events.skipped}
