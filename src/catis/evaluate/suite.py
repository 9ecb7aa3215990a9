"""Several runs in a row, with what they share done once: the model, its images, the plain model's predictions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from catis.evaluate.cache import ImageCache
from catis.evaluate.images import StreamedImages
from catis.evaluate.loaded import LoadedModel, load
from catis.evaluate.prepared import Images
from catis.evaluate.run import evaluate_run, name_run
from catis.runs.predictions import Predictions
from catis.runs.record import Record
from catis.runs.spec import DataSpec, ModelSpec, RunSpec
from catis.runs.store import Store

__all__ = ["Finished", "SuiteProgress", "evaluate_suite"]

SuiteProgress = Callable[[RunSpec, int, int], None]
"""Called after each batch with the run, images done and images there are."""


@dataclass(frozen=True)
class Finished:
    """A run that has its record.

    Attributes:
        spec: What was asked for.
        record: What came out.
        skipped: Whether it was in the store already.
        notes: What the user should know besides.
    """

    spec: RunSpec
    record: Record
    skipped: bool
    notes: Sequence[str] = ()


def evaluate_suite(
    specs: Sequence[RunSpec],
    *,
    store: Store | None = None,
    force: bool = False,
    workers: int = 1,
    cache: ImageCache | None = None,
    retry: bool = True,
    progress: SuiteProgress | None = None,
) -> Iterator[Finished]:
    """Do runs in the order given; each is in the store before the next begins.

    A reduced run is compared with the plain run of the same model and data if that comes before it or is in the store.

    Args:
        specs: The runs. Those of one model, and of one data set, should follow one another.
        store: Where records go, and where finished runs are found.
        force: Do runs again that are in the store.
        workers: Threads that decode images.
        cache: Where prepared images are kept.
        retry: Whether to go on with smaller batches when memory runs out.
        progress: Called after each batch.

    Example:
        >>> from catis.runs import DataSpec, ModelSpec
        >>> spec = RunSpec(ModelSpec("tiny-6"), DataSpec("zoo-clean", limit=24), "tome", r=8)
        >>> [done.record.agreement_n for done in evaluate_suite([spec.vanilla, spec])]
        [0, 24]
    """
    shared = _Shared(store, workers, cache)
    for spec in specs:
        model, images = shared.model(spec), shared.images(spec)
        name = name_run(spec, model, images)
        if store is not None and not force and store.has(name):
            yield Finished(spec, store.read(name), skipped=True)
            continue
        plain = name == name_run(spec.vanilla, model, images)
        record, predictions = evaluate_run(
            spec,
            model=model,
            images=images,
            vanilla=None if plain else shared.vanilla(spec),
            retry=retry,
            progress=None if progress is None else _for(progress, spec),
        )
        shared.keep(name, predictions)
        if store is not None:
            record = store.write(record, predictions)
        yield Finished(spec, record, skipped=False, notes=shared.notes())


class _Shared:
    """The last model and data set used, and the predictions made on it."""

    def __init__(self, store: Store | None, workers: int, cache: ImageCache | None) -> None:
        self._store, self._workers, self._cache = store, workers, cache
        self._model: tuple[ModelSpec, int, LoadedModel] | None = None
        self._images: tuple[DataSpec, StreamedImages] | None = None
        self._done: dict[str, Predictions] = {}

    def model(self, spec: RunSpec) -> LoadedModel:
        if self._model is None or self._model[:2] != (spec.model, spec.seed):
            self._model = (spec.model, spec.seed, load(spec.model, spec.seed))
            self._images = None
        return self._model[2]

    def images(self, spec: RunSpec) -> Images:
        if self._images is None or self._images[0] != spec.data:
            self._images = (spec.data, self.model(spec).images(spec, workers=self._workers, cache=self._cache))
            self._done.clear()
        return self._images[1]

    def vanilla(self, spec: RunSpec) -> Predictions | None:
        """The plain model's predictions, if they are known."""
        name = name_run(spec.vanilla, self.model(spec), self.images(spec))
        if name not in self._done and self._store is not None and self._store.has(name):
            self._done[name] = self._store.predictions(name)
        return self._done.get(name)

    def keep(self, name: str, predictions: Predictions) -> None:
        self._done[name] = predictions

    def notes(self) -> list[str]:
        notes = [] if self._images is None else self._images[1].notes
        found = list(notes)
        notes.clear()
        return found


def _for(progress: SuiteProgress, spec: RunSpec) -> Callable[[int, int], None]:
    return lambda done, total: progress(spec, done, total)
