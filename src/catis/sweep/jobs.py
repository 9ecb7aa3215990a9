"""Spreads a plan into runs: models x data x methods x amounts, less what is left out, vanilla first of its group."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase

import torch

from catis.core.schedule import RLike
from catis.runs.spec import DataSpec, RunSpec
from catis.sweep.entries import Exclude, MethodEntry, ModelEntry, Plan
from catis.sweep.plan import VANILLA
from catis.sweep.table import PlanError

__all__ = ["Job", "Patterns", "expand", "spell"]

Patterns = Sequence[str]
"""Shell patterns, such as "vit-*" or "*r=13*"."""


@dataclass(frozen=True)
class Job:
    """One run of a plan, with the labels it has there.

    Attributes:
        model: Label of the model.
        method: Label of the method, with its options; "vanilla" for the plain model.
        data: Title of the data set.
        spec: What is to be run.
    """

    model: str
    method: str
    data: str
    spec: RunSpec

    @property
    def label(self) -> str:
        """What `--only` and `--skip` match, and what is printed: "vit-s tome r=13 imagenet"."""
        amount = [] if self.spec.r is None else [spell(self.spec.r)]
        return " ".join([self.model, self.method, *amount, self.data])

    @property
    def is_vanilla(self) -> bool:
        """Whether it runs the plain model."""
        return self.spec.method is None


def expand(plan: Plan, *, limit: int | None = None, only: Patterns = ("*",), skip: Patterns = ()) -> list[Job]:
    """All runs of a plan, grouped by model and data set, the vanilla run of a group first.

    Args:
        plan: The plan.
        limit: Use at most this many images of every set.
        only: Keep runs whose label matches one of these patterns, and the vanilla runs that they are compared with.
        skip: Leave out runs whose label matches one of these patterns.

    Raises:
        PlanError: A method has no amount, or nothing is left to run.

    Example:
        >>> from pathlib import Path
        >>> from catis.runs.spec import ModelSpec
        >>> models = (ModelEntry("small", ModelSpec("tiny-6")),)
        >>> methods = (MethodEntry("tome", "tome"), MethodEntry("catis", "catis"))
        >>> plan = Plan(Path("plan.toml"), Path("runs"), models, methods, (4, 8), (DataSpec("zoo-clean"),))
        >>> [job.label for job in expand(plan, only=["*tome*"])]
        ['small vanilla zoo-clean', 'small tome r=4 zoo-clean', 'small tome r=8 zoo-clean']
    """
    jobs: list[Job] = []
    for model in plan.models:
        for data in plan.data:
            group = _group(plan, model, _limited(data, model.limit, limit))
            kept = [job for job in group if not any(_excludes(one, job) for one in plan.excludes)]
            wanted = [job for job in kept if _matches(job, only) and not _matches(job, skip)]
            if wanted and not wanted[0].is_vanilla:  # agreement is measured against it
                wanted.insert(0, replace(wanted[0], method=VANILLA, spec=wanted[0].spec.vanilla))
            jobs += wanted
    if not jobs:
        raise PlanError(
            f"{plan.file}: nothing is left to run with --only {list(only)}, --skip {list(skip)} and its excludes"
        )
    return jobs


def spell(r: RLike) -> str:
    """An amount as the command line spells it.

    Example:
        >>> spell(13), spell(0.25), spell([16, 8]), spell((8, -1.0))
        ('r=13', 'r=0.25', 'r=16,8', 'r=8:-1')
    """
    if isinstance(r, tuple):
        return f"r={r[0]}:{r[1]:g}"
    return f"r={r:g}" if isinstance(r, (int, float)) else f"r={','.join(map(str, r))}"


def _group(plan: Plan, model: ModelEntry, data: DataSpec) -> Iterator[Job]:
    usual = plan.defaults
    device = usual.device or ("cuda" if torch.cuda.is_available() else "cpu")
    spec = RunSpec(
        model.spec, data, batch_size=usual.batch_size, precision=usual.precision, device=device,
        compile=usual.compile, seed=usual.seed, on_error=usual.on_error,
    )  # fmt: skip
    yield Job(model.label, VANILLA, data.title, spec)
    for method in plan.methods:
        for r in _amounts(plan, model, method):
            reduced = replace(spec, method=method.name, r=r, options=method.options, prop_attn=method.prop_attn)
            yield Job(model.label, method.label, data.title, reduced)


def _amounts(plan: Plan, model: ModelEntry, method: MethodEntry) -> tuple[RLike | None, ...]:
    """The method's own amounts, else the model's, else the plan's; none for a method that decides them itself."""
    if method.own_amounts:
        return (None,)
    for amounts in (method.amounts, model.amounts, plan.amounts):
        if amounts:
            return amounts
    raise PlanError(f"{plan.file}, r: is missing for {model.label} with {method.label}; expected r = 13 or r = [4, 8]")


def _limited(data: DataSpec, *limits: int | None) -> DataSpec:
    given = [limit for limit in (data.limit, *limits) if limit is not None]
    return replace(data, limit=min(given)) if given else data


def _matches(job: Job, patterns: Patterns) -> bool:
    return any(fnmatchcase(job.label, pattern) for pattern in patterns)


def _excludes(one: Exclude, job: Job) -> bool:
    named = ((job.model, one.model), (job.method, one.method), (job.data, one.data))
    return all(fnmatchcase(*pair) for pair in named) and one.r in (None, job.spec.r)
