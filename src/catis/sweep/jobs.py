"""Spreads a plan into runs: models x data x methods x amounts, less what is left out, vanilla first of its group."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase

import torch

from catis.core.reduction import VANILLA, Reduction
from catis.runs.spec import DataSpec, RunSpec
from catis.sweep.entries import Exclude, MethodEntry, ModelEntry, Plan
from catis.sweep.table import PlanError

Patterns = Sequence[str]
"""Shell patterns, such as "vit-*" or "*r=13*"."""


@dataclass(frozen=True)
class Job:
    """One run of a plan, with the labels it has there."""

    model: str  # label of the model
    method: str  # label of the method, with its options; "vanilla" for the vanilla model
    data: str  # title of the data set
    spec: RunSpec  # what is to be run
    from_recipe: bool = False  # whether the method's label stands for the amounts too

    @property
    def label(self) -> str:
        """What `--only` and `--skip` match, and what is printed: "vit-s tome r=13 imagenet"."""
        reduction = self.spec.reduction
        amount = "" if self.is_vanilla or reduction.r is None or self.from_recipe else reduction.schedule.label
        return " ".join(word for word in (self.model, self.method, amount, self.data) if word)

    @property
    def is_vanilla(self) -> bool:
        """Whether it runs the vanilla model."""
        return self.method == VANILLA


def expand(plan: Plan, *, limit: int | None = None, only: Patterns = ("*",), skip: Patterns = ()) -> list[Job]:
    """All runs of a plan, grouped by model and data set, the vanilla run of a group first.

    Args:
        limit: Use at most this many images of every set.
        only: Keep runs whose label matches one of these patterns, and the vanilla runs that they are compared with.
        skip: Leave out runs whose label matches one of these patterns.

    Example:
        >>> from pathlib import Path
        >>> from catis.core.schedule import Schedule
        >>> from catis.registry import create_method
        >>> from catis.runs.spec import ModelSpec
        >>> models = (ModelEntry("small", ModelSpec("tiny-6")),)
        >>> methods = tuple(MethodEntry(name, Reduction(create_method(name))) for name in ("tome", "catis"))
        >>> amounts = Schedule(4), Schedule(8)
        >>> plan = Plan(Path("plan.toml"), Path("runs"), models, methods, amounts, (DataSpec("zoo-clean"),))
        >>> [job.label for job in expand(plan, only=["*tome*"])]
        ['small vanilla zoo-clean', 'small tome r=4 zoo-clean', 'small tome r=8 zoo-clean']
    """
    jobs: list[Job] = []
    for model in plan.models:
        for data in plan.data:
            group = _group(plan, model, _limited(data, model.limit, limit))
            kept = [job for job in group if not any(_excludes(rule, job) for rule in plan.excludes)]
            wanted = [job for job in kept if _matches(job, only) and not _matches(job, skip)]
            if wanted and not wanted[0].is_vanilla:  # agreement is measured against it
                wanted.insert(0, Job(wanted[0].model, VANILLA, wanted[0].data, wanted[0].spec.vanilla))
            jobs += wanted
    if not jobs:
        raise PlanError(
            f"{plan.file}: nothing is left to run with --only {list(only)}, --skip {list(skip)} and its excludes"
        )
    return jobs


def _group(plan: Plan, model: ModelEntry, data: DataSpec) -> Iterator[Job]:
    usual = plan.defaults
    device = usual.device or ("cuda" if torch.cuda.is_available() else "cpu")
    spec = RunSpec(
        model.spec, data, batch_size=usual.batch_size, precision=usual.precision, device=device,
        compile=usual.compile, seed=usual.seed, on_error=usual.on_error,
    )  # fmt: skip
    yield Job(model.label, VANILLA, data.title, spec)
    for method in plan.methods:
        for reduction in _reductions(plan, model, method):
            run = replace(spec, reduction=reduction, correction=method.correction)
            yield Job(model.label, method.label, data.title, run, method.from_recipe)


def _reductions(plan: Plan, model: ModelEntry, method: MethodEntry) -> list[Reduction]:
    """The method at its own amounts, else the model's, else the plan's; once if it decides the amounts itself."""
    if method.from_recipe or method.reduction.method.own_amounts:
        return [method.reduction]
    amounts = method.amounts or model.amounts or plan.amounts
    if not amounts:
        raise PlanError(
            f"{plan.file}, r: is missing for {model.label} with {method.label}; expected r = 13 or r = [4, 8]"
        )
    return [replace(method.reduction, schedule=schedule) for schedule in amounts]


def _limited(data: DataSpec, *limits: int | None) -> DataSpec:
    given = [limit for limit in (data.limit, *limits) if limit is not None]
    return replace(data, limit=min(given)) if given else data


def _matches(job: Job, patterns: Patterns) -> bool:
    return any(fnmatchcase(job.label, pattern) for pattern in patterns)


def _excludes(rule: Exclude, job: Job) -> bool:
    named = ((job.model, rule.model), (job.method, rule.method), (job.data, rule.data))
    return all(fnmatchcase(*pair) for pair in named) and rule.r in (None, job.spec.reduction.schedule)
