"""One run from beginning to end: its name, its record and its predictions."""

from __future__ import annotations

import time

from catis.api import applied
from catis.evaluate.cache import ImageCache
from catis.evaluate.fields import cost_of, environment_of, identity_of, outcome_of, reduction_of
from catis.evaluate.loaded import LoadedModel, load
from catis.evaluate.predict import Progress, predict
from catis.evaluate.prepared import Images
from catis.runs.identity import run_name
from catis.runs.predictions import Predictions
from catis.runs.record import Record
from catis.runs.spec import RunSpec

__all__ = ["evaluate_run", "name_run"]


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
        >>> from catis.runs import DataSpec, ModelSpec
        >>> spec = RunSpec(ModelSpec("tiny-6"), DataSpec("zoo-clean", limit=24), "tome", r=8)
        >>> record, predictions = evaluate_run(spec)
        >>> record.n_read, record.tokens[-1], len(predictions)
        (24, 96, 24)
    """
    model = model or load(spec.model, spec.seed)
    images = images or model.images(spec, workers=workers, cache=cache)
    settings = reduction_of(spec, model.module)
    started = time.perf_counter()
    with applied(model.module, settings):
        found = predict(model.module, images, model.preprocessing, spec, retry=retry, progress=progress)
    seconds = time.perf_counter() - started
    record = Record(
        name=name_run(spec, model, images),
        **identity_of(spec, model, images),
        **outcome_of(images, found, vanilla),
        **cost_of(model.module, settings),
        param_count=sum(weights.numel() for weights in model.module.parameters()),
        environment=environment_of(spec, found, seconds),
    )
    return record, found.predictions


def name_run(spec: RunSpec, model: LoadedModel, images: Images) -> str:
    """Name of a run, before it is done: the same content is the same name, on any machine.

    Example:
        >>> from catis.runs import DataSpec, ModelSpec
        >>> spec = RunSpec(ModelSpec("tiny-6"), DataSpec("zoo-clean", limit=24), "tome", r=8)
        >>> model = load(spec.model)
        >>> name_run(spec, model, model.images(spec))
        'tiny-6-tome-8-zoo-clean-...'
    """
    identity = identity_of(spec, model, images)
    stem = [identity["model"], identity["method"], identity["schedule"], spec.data.title]
    return run_name([word for word in stem if word], identity)
