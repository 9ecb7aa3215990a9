"""What each run costs in multiply-adds, from shapes alone; a model or amount that cannot be used is refused here."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from torch import nn

from catis.core.reduction import Reduction
from catis.errors import CatisError
from catis.macs import gmacs
from catis.runs.spec import ModelSpec
from catis.sweep.jobs import Job
from catis.sweep.table import PlanError


def costs(file: Path, jobs: Sequence[Job]) -> list[float]:
    """GMACs per image of each run. Models are built without weights, each once.

    Raises:
        PlanError: No such model, one that cannot be reduced, or an amount or option that does not fit it.

    Example:
        >>> from catis.core.reduction import Reduction
        >>> from catis.runs.spec import DataSpec, RunSpec
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
