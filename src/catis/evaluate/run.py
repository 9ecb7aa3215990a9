"""One run from beginning to end: its name, its record and its predictions."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from catis import hosts
from catis.api import applied
from catis.core.reduction import Reduction
from catis.evaluate.cache import ImageCache
from catis.evaluate.fields import cost_of, environment_of, identity_of, outcome_of
from catis.evaluate.images import Images
from catis.evaluate.loaded import LoadedModel, load
from catis.evaluate.predict import Progress, predict
from catis.runs.identity import run_name
from catis.runs.predictions import Predictions
from catis.runs.record import Record
from catis.runs.spec import RunSpec


@dataclass(frozen=True)
class Identity:
    """What a run is: a name made of its content, the reduction bound to the model, and all that decides the result."""

    name: str
    reduction: Reduction
    fields: Mapping[str, Any]


def identify(spec: RunSpec, model: LoadedModel, images: Images) -> Identity:
    """What a run is, before it is done.

    Raises:
        UnsupportedModelError: The model cannot be reduced rightly.
        ValueError: The reduction does not fit the model.

    Example:
        >>> from catis.runs import DataSpec, ModelSpec
        >>> spec = RunSpec(ModelSpec("tiny-6"), DataSpec("zoo-clean", limit=24), Reduction.of("tome", 8))
        >>> model = load(spec.model)
        >>> identify(spec, model, model.images(spec)).name
        'tiny-6-tome-8-zoo-clean-...'
    """
    reduction = hosts.find(model.module).bind(spec.reduction)
    known = identity_of(spec, reduction, model, images)
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
        spec: What to run.
        model: The loaded model of spec.model.
        images: The opened images of spec.data, prepared for that model.
        identity: What `identify` says of the run.
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
        **outcome_of(images, outcome, vanilla),
        **cost_of(model.module, identity.reduction),
        param_count=sum(weights.numel() for weights in model.module.parameters()),
        environment=environment_of(spec, outcome, seconds),
    )
    return record, outcome.predictions
