"""The demo's computation, from models and images to plain numbers. It prints and writes nothing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from PIL import Image
from torch import nn

from catis import zoo
from catis.core.reduction import Reduction
from catis.demo.compare import Paired, compare
from catis.demo.images import View, make_views
from catis.demo.limits import Law, Limit, find_limit, fit_laws
from catis.demo.probes import Probed, probe
from catis.demo.scores import VANILLA, ModelScores, Variant, measure
from catis.demo.settings import Settings
from catis.demo.tokens import token_picture
from catis.demo.work import amounts, bisection_passes, is_compared, limit_views, probe_amount, probe_work
from catis.demo.workers import Workers, one_thread
from catis.macs import compare_macs
from catis.zoo.models import DEPTHS

__all__ = ["Findings", "Row", "Stage", "run"]

OURS = "catis"
Stage = Callable[[str, float], None]
"""Called with what is being done and the work just finished, in images times blocks."""


@dataclass(frozen=True)
class Row:
    """One line of the table.

    Attributes:
        model: Zoo name.
        method: Method, or "vanilla".
        r: Patch tokens removed per block.
        tokens: Patch tokens left after the last block.
        gmacs: Giga multiply-adds per image.
        ratio: Vanilla's over these.
        accuracy: By view, share of images.
        speed_up: Measured: median, lower and upper quartile of vanilla's time over this one's on the same batch.
    """

    model: str
    method: str
    r: int
    tokens: int
    gmacs: float
    ratio: float
    accuracy: dict[str, float]
    speed_up: tuple[float, float, float]

    @property
    def efficiency(self) -> float:
        """Share of the saved multiply-adds that became saved time."""
        return self.speed_up[0] / self.ratio


@dataclass(frozen=True)
class Findings:
    """Everything that was measured.

    Attributes:
        settings: What was asked for.
        n: Images by view.
        rounds: Batches behind each timing.
        rows: The table.
        curves: Accuracy by (model, view, method) at every r tried, 0 included.
        pairs: CATIS against each other method by (model, view, r, method).
        limits: r_crit by view, then by (model, method).
        laws: The fits of r_crit against 1/L, by view and method.
        probed: rho_s and rho_off by model.
        picture: What CATIS kept, merged and evicted on four images.
        caption: What the picture shows.
    """

    settings: Settings
    n: dict[str, int]
    rounds: int
    rows: list[Row]
    curves: dict[tuple[str, str, str], dict[int, float]]
    pairs: dict[tuple[str, str, int, str], Paired]
    limits: dict[str, dict[tuple[str, str], Limit]]
    laws: dict[str, dict[str, Law]]
    probed: dict[str, Probed]
    picture: Image.Image
    caption: str


def run(settings: Settings, stage: Stage = lambda what, work: None) -> Findings:
    """Measure everything. The same settings give the same numbers, apart from the timings.

    Raises:
        WeightsError: A weights file of the package is missing or damaged.
    """
    with one_thread():
        models: dict[str, nn.Module] = {name: zoo.load(name) for name in settings.models}
        stage("making images", 0)
        views = make_views(settings)
        with Workers(models) as workers:
            return _run(settings, models, views, workers, _Stages(stage))


def _run(
    settings: Settings, models: dict[str, nn.Module], views: dict[str, View], workers: Workers, say: _Stages
) -> Findings:
    scores = {
        name: ModelScores(name, DEPTHS[name], views, settings.batch, workers, say.tick) for name in settings.models
    }
    deep = sorted(scores.values(), key=lambda one: -one.depth)  # long tasks first, so that workers end together
    say.now(f"{len(settings.methods)} methods, clean and shifted")
    measure(workers, [wanted for one in deep for wanted in _wanted(one, settings)])
    say.now("r_crit, rho_s and rho_off")
    limits, probed = _search(scores, workers, settings, say)
    say.now("picture")
    first = scores[settings.compared[0]]
    picture, caption = token_picture(models[first.name], first.name, views["clean"], amounts(first.depth, settings)[-2])
    return Findings(
        settings=settings,
        n={name: len(view) for name, view in views.items()},
        rounds=first.rounds(),
        rows=[row for name in settings.compared for row in _rows(scores[name], models[name], settings)],
        curves=_curves(scores, settings),
        pairs=_pairs(scores, settings),
        limits=limits,
        laws={view: fit_laws(found, settings.methods) for view, found in limits.items()},
        probed=probed,
        picture=picture,
        caption=caption,
    )


class _Stages:
    """Remembers what is being done while the passes report their work."""

    def __init__(self, stage: Stage) -> None:
        self._stage, self._what = stage, ""

    def now(self, what: str) -> None:
        self._what = what
        self.tick(0)

    def tick(self, work: float) -> None:
        self._stage(self._what, work)


def _wanted(scores: ModelScores, settings: Settings) -> list[tuple[ModelScores, str, list[Variant]]]:
    """The table's passes; of a model that is not in the table, vanilla's only."""
    compared = is_compared(scores.name, settings)
    variants = [(method, r) for r in amounts(scores.depth, settings) for method in settings.methods]
    views = list(scores.views) if compared else limit_views(settings)
    return [(scores, view, variants if compared else []) for view in views]


def _search(
    scores: dict[str, ModelScores], workers: Workers, settings: Settings, say: _Stages
) -> tuple[dict[str, dict[tuple[str, str], Limit]], dict[str, Probed]]:
    """r_crit of every model and method, and the probes: tasks that do not wait for each other, deep models first."""

    def limit(one: ModelScores, view: str, method: str) -> Limit:
        before = len(one.tried(view, method))
        found = find_limit(one, view, method, settings)
        passes = len(one.tried(view, method)) - before
        unspent = bisection_passes(one.depth, is_compared(one.name, settings), settings) - passes
        say.tick(unspent * len(one.views[view]) * one.depth)
        return found

    def probed(one: ModelScores) -> Probed:
        found = probe(
            workers.model(one.name), one.name, one.views["clean"], probe_amount(one.depth, settings), settings
        )
        say.tick(probe_work(settings, one.depth))
        return found

    deep = sorted(scores.values(), key=lambda one: -one.depth)
    seen = [one for one in deep if is_compared(one.name, settings)]
    keys = [(view, one, method) for view in limit_views(settings) for one in deep for method in settings.methods]
    tasks: list[Callable[[], Limit | Probed]] = [partial(probed, one) for one in seen]
    tasks += [partial(limit, one, view, method) for view, one, method in keys]
    results = workers.run(tasks)
    by_name = {one.model: one for one in results if isinstance(one, Probed)}
    limits: dict[str, dict[tuple[str, str], Limit]] = {view: {} for view in limit_views(settings)}
    for (view, one, method), found in zip(keys, results[len(seen) :], strict=True):
        assert isinstance(found, Limit)
        limits[view][one.name, method] = found
    return limits, {name: by_name[name] for name in settings.compared}


def _rows(scores: ModelScores, model: nn.Module, settings: Settings) -> list[Row]:
    variants = [VANILLA, *((m, r) for r in amounts(scores.depth, settings) for m in settings.methods)]
    rows = []
    for method, r in variants:
        macs = compare_macs(model, Reduction.of(method, r) if r else Reduction.none())
        accuracy = {view: scores.accuracy(view, (method, r)) for view in scores.views}
        speed = scores.speed_up((method, r))
        rows.append(
            Row(scores.name, method, r, macs.tokens[-1], macs.reduced, macs.vanilla / macs.reduced, accuracy, speed)
        )
    return rows


def _curves(scores: dict[str, ModelScores], settings: Settings) -> dict[tuple[str, str, str], dict[int, float]]:
    return {
        (name, view, method): {0: one.accuracy(view, VANILLA)}
        | {r: one.accuracy(view, (method, r)) for r in one.tried(view, method)}
        for name, one in scores.items()
        if name in settings.compared
        for view in one.views
        for method in settings.methods
    }


def _pairs(scores: dict[str, ModelScores], settings: Settings) -> dict[tuple[str, str, int, str], Paired]:
    return {
        (name, view, r, method): compare(scores[name].correct(view, (OURS, r)), scores[name].correct(view, (method, r)))
        for name in settings.compared
        for view in scores[name].views
        for r in amounts(scores[name].depth, settings)
        for method in settings.methods
        if method != OURS
    }
