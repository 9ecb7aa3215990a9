"""One run from beginning to end: its name, its predictions, and its record: what decided it, came of it, and cost."""

from __future__ import annotations

import json
import platform
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch
from torch import nn

from catis import hosts
from catis.api import applied
from catis.core.budget import removed_from
from catis.core.reduction import Reduction
from catis.diagnostics.estimates import wilson
from catis.evaluate.cache import ImageCache
from catis.evaluate.images import Images
from catis.evaluate.loaded import LoadedModel, load
from catis.evaluate.metrics import agreement
from catis.evaluate.predict import Predicted, Progress, predict
from catis.macs import compare_macs
from catis.recipes.made import versions
from catis.runs.predictions import Predictions
from catis.runs.record import Record, run_name
from catis.runs.spec import RunSpec


@dataclass(frozen=True)
class Identity:
    """What a run is: a name made of its content, the reduction bound to the model, and all that decides the result."""

    name: str
    reduction: Reduction
    fields: Mapping[str, Any]


def identify(spec: RunSpec, model: LoadedModel, images: Images) -> Identity:
    """What a run is, before it is done.

    Example:
        >>> from catis.runs import DataSpec, ModelSpec
        >>> spec = RunSpec(ModelSpec("tiny-6"), DataSpec("zoo-clean", limit=24), Reduction.of("tome", 8))
        >>> model = load(spec.model)
        >>> identify(spec, model, model.images(spec)).name
        'tiny-6-tome-8-zoo-clean-...'
    """
    reduction = hosts.find(model.module).bind(spec.reduction)
    known = _identity_of(spec, reduction, model, images)
    stem = [known["model"], known["method"], known["schedule"], spec.data.title]
    return Identity(run_name([word for word in stem if word], known), reduction, known)


def evaluate_run(
    spec: RunSpec,
    *,
    model: LoadedModel | None = None,
    images: Images | None = None,
    identity: Identity | None = None,
    vanilla: Predictions | None = None,
    workers: int = 1,
    cache: ImageCache | None = None,
    retry: bool = True,
    progress: Progress | None = None,
) -> tuple[Record, Predictions]:
    """Do one run. What several runs share may be passed in, so that it is done once; the model comes back as it was.

    Args:
        vanilla: Predictions of the vanilla model on the same images, for the agreement.
        workers: Threads that decode images, where they are opened here.
        cache: Where prepared images are kept, where they are opened here.
        retry: Whether to go on with smaller batches when memory runs out.
        progress: Called with (done, total) after each batch.

    Example:
        >>> from catis.runs import DataSpec, ModelSpec
        >>> spec = RunSpec(ModelSpec("tiny-6"), DataSpec("zoo-clean", limit=24), Reduction.of("tome", 8))
        >>> record, predictions = evaluate_run(spec)
        >>> record.n_read, record.tokens[-1], len(predictions)
        (24, 96, 24)
    """
    model = model or load(spec.model, spec.seed)
    images = images or model.images(spec, workers=workers, cache=cache)
    identity = identity or identify(spec, model, images)
    started = time.perf_counter()
    with applied(model.module, identity.reduction, correction=spec.correction):
        outcome = predict(model.module, images, model.preprocessing, spec, retry=retry, progress=progress)
    seconds = time.perf_counter() - started
    record = Record(
        name=identity.name,
        **identity.fields,
        **_outcome_of(images, outcome, vanilla),
        **_cost_of(model.module, identity.reduction),
        param_count=sum(weights.numel() for weights in model.module.parameters()),
        environment=_environment_of(spec, outcome, seconds),
    )
    return record, outcome.predictions


def _identity_of(spec: RunSpec, reduction: Reduction, model: LoadedModel, images: Images) -> dict[str, Any]:
    """Everything that decides what a run computes, as fields of its record; the reduction is bound to the model."""
    scored = images.about.scored
    return {
        "model": Path(spec.model.name).name if Path(spec.model.name).is_dir() else spec.model.name,
        "settings": dict(spec.model.settings),
        "weights": model.weights,
        "preprocessing": json.loads(json.dumps(asdict(model.preprocessing))),  # as a record's file gives it back
        **_reduction_fields(Reduction.none() if reduction.is_vanilla else reduction),
        **({} if spec.correction is None else {"calibrated": spec.correction.digest}),  # other runs keep their names
        "data": spec.data.name,
        "corruption": spec.data.corruption,
        "severity": spec.data.severity,
        "data_seed": spec.data.seed,
        "data_fingerprint": images.about.fingerprint,
        "classes": model.num_classes if scored is None else len(scored),
        "precision": spec.precision,
        "compiled": spec.compile,
        "seed": spec.seed,
        "versions": versions(),
    }


def _reduction_fields(reduction: Reduction) -> dict[str, Any]:
    """The fields of a reduction, with the amount as one number, where it is one, and as text."""
    r = reduction.r
    text = "" if r is None or reduction.is_vanilla else str(reduction.schedule)
    told = reduction.to_json()
    known = {name: told.pop(name) for name in ("method", "options", "prop_attn")}
    counts = told.pop("r")
    told |= {"r": counts} if isinstance(counts, dict) and "kept" in counts else {}
    number = r if isinstance(r, (int, float)) else None
    return {**known, "r": number, "schedule": text, **({"further": told} if told else {})}


def _outcome_of(images: Images, outcome: Predicted, vanilla: Predictions | None) -> dict[str, Any]:
    """What came out, with its denominators."""
    said = outcome.predictions
    n, hits = len(said), {k: int(said.correct(k).sum()) for k in (1, 5)}
    same, same_n = (None, 0) if vanilla is None else agreement(said, vanilla)
    shares: dict[str, Any] = {}
    for k, count in hits.items():
        low, high = wilson(count, n)
        shares |= {f"correct{k}": count, f"top{k}": 100 * count / n, f"top{k}_low": low, f"top{k}_high": high}
    return shares | {
        "n_total": len(images.about.names),
        "n_read": n,
        "n_broken": len(outcome.broken),
        "broken": [[item.name, item.reason] for item in outcome.broken],
        "agreement": same,
        "agreement_n": same_n,
    }


def _cost_of(model: nn.Module, reduction: Reduction) -> dict[str, Any]:
    """Multiply-adds and tokens."""
    cost = compare_macs(model, reduction)
    return {
        "gmacs": cost.reduced,
        "gmacs_vanilla": cost.vanilla,
        "gmacs_matching": cost.overhead,
        "patches": cost.patches,
        "tokens": list(cost.tokens),
        "amounts": removed_from(cost.patches, cost.tokens),
    }


def _environment_of(spec: RunSpec, outcome: Predicted, seconds: float) -> dict[str, Any]:
    """What may differ between two runs of the same name."""
    device = torch.device(spec.device)
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else platform.processor() or platform.machine()
    return {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "seconds": round(seconds, 3),
        "images_per_second": round(len(outcome.predictions) / seconds, 2),
        "batch_size": outcome.batch_size,
        "device": spec.device,
        "device_name": name,
        "threads": torch.get_num_threads(),
        "python": platform.python_version(),
        "platform": platform.platform(),
        "root": spec.data.root,
        "limit": spec.data.limit,
        "checkpoint": spec.model.checkpoint,
        "on_error": spec.on_error,
    }
