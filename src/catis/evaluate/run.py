"""One run from beginning to end: its name, its record and its predictions."""

from __future__ import annotations

import json
import platform
import time
from dataclasses import asdict, dataclass, fields
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch
from torch import nn

from catis.api import applied, build_reduction
from catis.core.method import Reduction
from catis.data.preprocessing import Preprocessing
from catis.errors import CatisError
from catis.evaluate.cache import ImageCache
from catis.evaluate.images import Images, StreamedImages, open_images
from catis.evaluate.metrics import agreement, wilson
from catis.evaluate.predict import Predicted, Progress, predict
from catis.hosts import dispatch
from catis.macs import compare_reduction
from catis.runs.identity import run_name, versions, weights_hash
from catis.runs.predictions import Predictions
from catis.runs.record import Record
from catis.runs.spec import ModelSpec, RunSpec

__all__ = ["LoadedModel", "evaluate_run", "load", "name_run", "reduction_of"]


@dataclass(frozen=True)
class LoadedModel:
    """A model and what every run of it needs to know.

    Attributes:
        module: The model, plain, in eval mode.
        preprocessing: How it wants its images.
        weights: Hash of its weights.
        num_classes: Classes it tells apart.
        class_names: Their names in order, if the model has any.
    """

    module: nn.Module
    preprocessing: Preprocessing
    weights: str
    num_classes: int
    class_names: tuple[str, ...] = ()

    def images(self, spec: RunSpec, *, workers: int = 1, cache: ImageCache | None = None) -> StreamedImages:
        """The run's data set, prepared for this model."""
        return open_images(
            spec.data,
            self.preprocessing,
            self.num_classes,
            class_names=self.class_names,
            workers=workers,
            cache=cache,
        )


def load(spec: ModelSpec, seed: int = 0) -> LoadedModel:
    """Load a model; the seed decides the weights of one that has none.

    Example:
        >>> load(ModelSpec("tiny-6")).num_classes
        24
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model, preprocessing = spec.load()
    return LoadedModel(model, preprocessing, weights_hash(model), _num_classes(model), _class_names(model))


def _num_classes(model: nn.Module) -> int:
    found = getattr(model, "num_classes", None) or getattr(getattr(model, "config", None), "num_labels", None)
    if not found:
        raise CatisError(f"{type(model).__name__} has no classifier: there are no classes to compare with labels")
    return int(found)


def _class_names(model: nn.Module) -> tuple[str, ...]:
    """Names of the classes of a transformers model; those it makes up itself, LABEL_0 and so on, are none."""
    names = getattr(getattr(model, "config", None), "id2label", None) or {}
    said = tuple(str(names[place]) for place in sorted(names))
    return () if all(name.startswith("LABEL_") for name in said) else said


def evaluate_run(
    spec: RunSpec,
    *,
    model: LoadedModel | None = None,
    images: Images | None = None,
    vanilla: Predictions | None = None,
    workers: int = 1,
    cache: ImageCache | None = None,
    retry: bool = True,
    progress: Progress | None = None,
) -> tuple[Record, Predictions]:
    """Do one run. What several runs share may be passed in, so that it is done once; the model comes back as it was.

    Args:
        spec: What to run.
        model: The loaded model of spec.model.
        images: The opened images of spec.data, prepared for that model.
        vanilla: Predictions of the plain model on the same images, for the agreement.
        workers: Threads that decode images, where they are opened here.
        cache: Where prepared images are kept, where they are opened here.
        retry: Whether to go on with smaller batches when memory runs out.
        progress: Called with (done, total) after each batch.

    Example:
        >>> from catis.runs import DataSpec
        >>> spec = RunSpec(ModelSpec("tiny-6"), DataSpec("zoo-clean", limit=24), "tome", r=8)
        >>> record, predictions = evaluate_run(spec)
        >>> record.n_read, record.tokens[-1], len(predictions)
        (24, 96, 24)
    """
    model = model or load(spec.model, spec.seed)
    images = images or model.images(spec, workers=workers, cache=cache)
    settings = reduction_of(spec, model.module)
    amount: dict[str, Any] = {} if settings.method.own_amounts else {"schedule": settings.schedule}
    started = time.perf_counter()
    with applied(model.module, settings.method, prop_attn=settings.prop_attn, **amount):
        found = predict(model.module, images, model.preprocessing, spec, retry=retry, progress=progress)
    seconds = time.perf_counter() - started
    record = Record(
        name=name_run(spec, model, images),
        **_identity(spec, model, images),
        **_outcome(images, found, vanilla),
        **_cost(model.module, settings),
        param_count=sum(weights.numel() for weights in model.module.parameters()),
        environment=_environment(spec, found, seconds),
    )
    return record, found.predictions


def name_run(spec: RunSpec, model: LoadedModel, images: Images) -> str:
    """Name of a run, before it is done: the same content is the same name, on any machine.

    Example:
        >>> from catis.runs import DataSpec
        >>> spec = RunSpec(ModelSpec("tiny-6"), DataSpec("zoo-clean", limit=24), "tome", r=8)
        >>> model = load(spec.model)
        >>> name_run(spec, model, model.images(spec))
        'tiny-6-tome-8-zoo-clean-...'
    """
    identity = _identity(spec, model, images)
    stem = [identity["model"], identity["method"], identity["schedule"], spec.data.title]
    return run_name([word for word in stem if word], identity)


def reduction_of(spec: RunSpec, model: nn.Module) -> Reduction:
    """What a run puts on the model, checked against it; a plain run removes nothing.

    Raises:
        UnsupportedModelError: The model cannot be reduced rightly.
        ValueError: A bad method, amount or option.
    """
    target, host = dispatch.find(model)
    if spec.method is None:
        return build_reduction(host.facts(target), "tome", 0, None, True, {})
    return build_reduction(host.facts(target), spec.method, spec.r, None, spec.prop_attn, dict(spec.options))


def _identity(spec: RunSpec, model: LoadedModel, images: Images) -> dict[str, Any]:
    """Everything that decides what a run computes, as fields of its record."""
    settings = reduction_of(spec, model.module)
    scored = images.about.scored
    return {
        "model": Path(spec.model.name).name if Path(spec.model.name).is_dir() else spec.model.name,
        "settings": dict(spec.model.settings),
        "weights": model.weights,
        "preprocessing": _plain(asdict(model.preprocessing)),
        **_reduction_fields(settings),
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


def _reduction_fields(settings: Reduction) -> dict[str, Any]:
    if settings.is_vanilla:
        return {"method": "vanilla", "r": 0, "schedule": "", "options": {}, "prop_attn": True}
    method, schedule = settings.method, settings.schedule
    amounts = () if method.own_amounts else schedule.amounts or (schedule.fraction,)
    return {
        "method": method.name,
        "r": amounts[0] if len(set(amounts)) == 1 else None,
        "schedule": "" if method.own_amounts else schedule.describe().removeprefix("r="),
        "options": _plain({option.name: getattr(method, option.name) for option in fields(method)}),
        "prop_attn": settings.prop_attn,
    }


def _outcome(images: Images, found: Predicted, vanilla: Predictions | None) -> dict[str, Any]:
    said = found.predictions
    n, hits = len(said), {k: int(said.correct(k).sum()) for k in (1, 5)}
    same, same_n = (None, 0) if vanilla is None else agreement(said, vanilla)
    shares: dict[str, Any] = {}
    for k, count in hits.items():
        low, high = wilson(count, n)
        shares |= {f"correct{k}": count, f"top{k}": 100 * count / n, f"top{k}_low": low, f"top{k}_high": high}
    return shares | {
        "n_total": len(images.about.names),
        "n_read": n,
        "n_broken": len(found.broken),
        "broken": [[item.name, item.reason] for item in found.broken],
        "agreement": same,
        "agreement_n": same_n,
    }


def _cost(model: nn.Module, settings: Reduction) -> dict[str, Any]:
    cost = compare_reduction(model, settings)
    before = (cost.patches, *cost.tokens[:-1])
    return {
        "gmacs": cost.reduced,
        "gmacs_vanilla": cost.vanilla,
        "gmacs_matching": cost.overhead,
        "patches": cost.patches,
        "tokens": list(cost.tokens),
        "amounts": [entering - leaving for entering, leaving in zip(before, cost.tokens, strict=True)],
    }


def _environment(spec: RunSpec, found: Predicted, seconds: float) -> dict[str, Any]:
    device = torch.device(spec.device)
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else platform.processor() or platform.machine()
    return {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "seconds": round(seconds, 3),
        "images_per_second": round(len(found.predictions) / seconds, 2),
        "batch_size": found.batch_size,
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


def _plain(values: Any) -> Any:
    """As JSON gives it back, so that a record is equal to itself after a round trip."""
    return json.loads(json.dumps(values))
