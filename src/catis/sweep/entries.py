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
    """A method with one choice of its options, still without an amount, and amounts of its own; or a whole recipe.

    Attributes:
        label: What it is called in the plan.
        reduction: The method; all of the reduction, if it is a recipe's.
        amounts: Its own; None for those of the model or of the plan.
        from_recipe: Whether the reduction is whole, amounts too.
        correction: The recipe's calibrated weights.
    """

    label: str
    reduction: Reduction
    amounts: tuple[Schedule, ...] | None = None
    from_recipe: bool = False
    correction: Correction | None = None


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
    """A plan file, read and checked, with nothing built and no image opened yet.

    Attributes:
        file: Where it is written.
        store: Where its records go.
        models: In the order of the file.
        methods: In the order of the file, options spread out. Vanilla is always run and is not among them.
        amounts: The r of models and methods that have none of their own.
        data: In the order of the file, corruptions spread out.
        excludes: What is left out.
        defaults: What is the same for all runs.
    """

    file: Path
    store: Path
    models: tuple[ModelEntry, ...]
    methods: tuple[MethodEntry, ...]
    amounts: tuple[Schedule, ...]
    data: tuple[DataSpec, ...]
    excludes: tuple[Exclude, ...] = ()
    defaults: RunDefaults = RunDefaults()
