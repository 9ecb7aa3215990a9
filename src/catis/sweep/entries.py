"""What a plan is made of, as plain data."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from catis.core.reduction import Reduction
from catis.core.schedule import Schedule
from catis.hosts.correction import Correction
from catis.runs.spec import DataSpec, ModelSpec, OnError, Precision


@dataclass(frozen=True)
class ModelEntry:
    """A model of the plan: its label, where it comes from, and amounts or a number of images of its own."""

    label: str
    spec: ModelSpec
    amounts: tuple[Schedule, ...] | None = None
    limit: int | None = None


@dataclass(frozen=True)
class MethodEntry:
    """A method with one choice of its options, still without an amount, and amounts of its own; or a whole recipe."""

    label: str  # what it is called in the plan
    reduction: Reduction  # the method; all of the reduction, if it is a recipe's
    amounts: tuple[Schedule, ...] | None = None  # its own; None for those of the model or of the plan
    from_recipe: bool = False  # whether the reduction is whole, amounts too
    correction: Correction | None = None  # the recipe's calibrated weights


@dataclass(frozen=True)
class Exclude:
    """Patterns of runs to leave out; what is not named matches everything."""

    model: str = "*"
    method: str = "*"
    data: str = "*"
    r: Schedule | None = None


@dataclass(frozen=True)
class RunDefaults:
    """What is the same for all runs of a plan. No device: a GPU if there is one. No threads: as many as torch takes."""

    batch_size: int = 64
    precision: Precision = "float32"
    device: str | None = None
    compile: bool = False
    seed: int = 0
    on_error: OnError = "skip"
    threads: int | None = None


@dataclass(frozen=True)
class Plan:
    """A plan file, read and checked, with nothing built and no image opened yet."""

    file: Path  # where it is written
    store: Path  # where its records go
    models: tuple[ModelEntry, ...]  # in the order of the file
    # In the order of the file, options spread out. Vanilla is always run and is not among them.
    methods: tuple[MethodEntry, ...]
    amounts: tuple[Schedule, ...]  # the r of models and methods that have none of their own
    data: tuple[DataSpec, ...]  # in the order of the file, corruptions spread out
    excludes: tuple[Exclude, ...] = ()  # what is left out
    defaults: RunDefaults = RunDefaults()  # what is the same for all runs
