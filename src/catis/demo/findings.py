"""The demo's computation, from models and images to plain numbers. It prints and writes nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

from PIL import Image
from torch import nn

from catis import hosts, zoo
from catis.core.reduction import Reduction
from catis.demo.at_cost import CONSTANT, rivals_at_cost
from catis.demo.limits import Law, Limit, find_limit, fit_laws
from catis.demo.probes import Probed, probe, token_picture
from catis.demo.scores import VANILLA, Scores, make_views
from catis.demo.settings import OURS, Settings
from catis.demo.workers import Task, Workers
from catis.evaluate.metrics import Difference, compare
from catis.evaluate.prepared import PreparedImages
from catis.macs import compare_macs
from catis.sweep.local import threads_set

Stage = Callable[[str, float], None]
"""Called with what is being done, and the share of all work that is done."""


@dataclass(frozen=True)
class Row:
    """One line of the table."""

    model: str  # zoo name
    method: str  # method, or "vanilla"; at one cost, what was done
    r: int  # patch tokens removed per block
    tokens: int  # patch tokens left after the last block
    gmacs: float  # giga multiply-adds per image
    ratio: float  # vanilla's over these
    accuracy: dict[str, float]  # by view, share of images
    speed_up: float  # measured: vanilla's time over this one's on the same batch, median

    @property
    def efficiency(self) -> float:
        """Share of the saved multiply-adds that became saved time."""
        return self.speed_up / self.ratio


@dataclass(frozen=True)
class Findings:
    """Everything that was measured."""

    settings: Settings  # what was asked for
    n: dict[str, int]  # images by view
    rounds: int  # batches behind each timing
    rows: list[Row]  # the table
    at_cost: list[Row]  # what one can do with so many multiply-adds, of the leading model
    cost_pairs: dict[str, Difference]  # each of these against the first, on the clean images
    # Accuracy by (model, view, method) at every r tried, 0 included.
    curves: dict[tuple[str, str, str], dict[int, float]]
    # CATIS against each other method by (model, view, r, method), and against "vanilla".
    pairs: dict[tuple[str, str, int, str], Difference]
    limits: dict[str, dict[tuple[str, str], Limit]]  # r_crit by view, then by (model, method)
    laws: dict[str, dict[str, Law]]  # the fits of r_crit against 1/L, by view and method
    probed: dict[str, Probed]  # rho_s and rho_off by model
    picture: Image.Image  # what CATIS kept, merged and evicted on four images
    caption: str  # what the picture shows

    def method_pairs(self) -> dict[tuple[str, str, int, str], Difference]:
        """CATIS against each other method."""
        return {key: pair for key, pair in self.pairs.items() if key[-1] != VANILLA.method.name}


def run(settings: Settings, stage: Stage = lambda what, share: None) -> Findings:
    """Measure everything. The same settings give the same numbers, apart from the timings."""
    with threads_set(1):
        models: dict[str, nn.Module] = {name: zoo.load(name) for name in settings.models}
        stage("making images", 0.0)
        views = make_views(settings)
        with Workers(models) as workers:
            return _run(settings, models, views, workers, stage)


def _run(
    settings: Settings,
    models: Mapping[str, nn.Module],
    views: Mapping[str, PreparedImages],
    workers: Workers,
    stage: Stage,
) -> Findings:
    deep = sorted(settings.models, key=lambda name: -zoo.models.DEPTHS[name])  # long tasks first: both end together
    scores = {
        name: Scores(name, hosts.find(models[name]).preprocessing(), views, settings.batch, workers) for name in deep
    }
    leading, first = settings.leading, settings.compared[0]
    rivals = rivals_at_cost(models[leading], leading)
    equal = {
        name: {(method, r): Reduction.of(method, r) for r in settings.amounts(name) for method in settings.methods}
        for name in deep
    }
    wanted = {name: [*equal[name].values(), *(rivals.values() if name == leading else ())] for name in deep}
    probed, limits = _measure(settings, scores, views, workers, wanted, stage)
    before = scores[first].predictions("clean", VANILLA).top[:, 0].tolist()
    drawn = Reduction.of(OURS, settings.amounts(first)[-2])
    picture, caption = token_picture(models[first], first, views["clean"], before, drawn)
    vanilla = {(VANILLA.method.name, 0): VANILLA}
    return Findings(
        settings=settings,
        n={name: len(view.pixels) for name, view in views.items()},
        rounds=len(scores[first].seconds(VANILLA)),
        rows=[row for m in settings.compared for row in _rows(scores[m], models[m], vanilla | equal[m])],
        at_cost=_rows(scores[leading], models[leading], {(title, 0): rival for title, rival in rivals.items()}),
        cost_pairs=_cost_pairs(scores[leading], rivals),
        curves=_curves(scores, settings),
        pairs=_pairs(scores, settings),
        limits=limits,
        laws={view: fit_laws(limits[view], settings.methods) for view in limits},
        probed=probed,
        picture=picture,
        caption=caption,
    )


def _measure(
    settings: Settings,
    scores: Mapping[str, Scores],
    views: Mapping[str, PreparedImages],
    workers: Workers,
    wanted: Mapping[str, list[Reduction]],
    stage: Stage,
) -> tuple[dict[str, Probed], dict[str, dict[tuple[str, str], Limit]]]:
    """Every pass over the images: those of the tables into `scores`; returns the probes by model, and r_crit."""
    table = [
        task
        for name in scores
        for view in views
        if wanted[name] or view in settings.limit_views  # without a table, vanilla's passes only, for r_crit
        for task in scores[name].tasks(view, [VANILLA, *wanted[name]])
    ]
    compared = [name for name in scores if name in settings.compared]  # in the order of their work
    probes = [_probe_task(name, views["clean"], workers, settings) for name in compared]
    keys = [(view, name, method) for view in settings.limit_views for name in scores for method in settings.methods]
    searches = [_limit_task(scores[name], view, method, settings) for view, name, method in keys]
    stages = {f"{len(settings.methods)} methods, clean and shifted": table}
    stages["r_crit, rho_s and rho_off"] = [*probes, *searches]
    done, total = 0.0, sum(task.work for tasks in stages.values() for task in tasks)
    for what, tasks in stages.items():
        stage(what, done / total)
        results = []
        for task, result in zip(tasks, workers.run(tasks), strict=True):
            results.append(result)
            done += task.work
            stage(what, done / total)
    stage("picture", done / total)
    limits: dict[str, dict[tuple[str, str], Limit]] = {view: {} for view in settings.limit_views}
    for (view, name, method), limit in zip(keys, results[len(probes) :], strict=True):
        limits[view][name, method] = limit
    return {name: results[compared.index(name)] for name in settings.compared}, limits


def _limit_task(scores: Scores, view: str, method: str, settings: Settings) -> Task:
    n = settings.clean if view == "clean" else settings.shifted
    work = n * scores.depth * settings.bisection_passes(scores.name)
    return Task(work, partial(find_limit, scores, view, method, settings))


def _probe_task(name: str, clean: PreparedImages, workers: Workers, settings: Settings) -> Task:
    """One pass on clean and noisy images, one per method; the diagnostics themselves take about half again."""
    work = 1.5 * (2 + len(settings.methods)) * settings.probed * zoo.models.DEPTHS[name]
    return Task(work, lambda: probe(workers.model(name), name, clean, settings))


def _rows(scores: Scores, model: nn.Module, reductions: Mapping[tuple[str, int], Reduction]) -> list[Row]:
    rows = []
    for (method, r), reduction in reductions.items():
        macs = compare_macs(model, reduction)
        accuracy = {view: scores.accuracy(view, reduction) for view in scores.views}
        cost = (macs.tokens[-1], macs.reduced, macs.vanilla / macs.reduced)
        speed = scores.speed_up(reduction)
        rows.append(Row(scores.name, method, r, *cost, accuracy, speed))
    return rows


def _cost_pairs(scores: Scores, rivals: Mapping[str, Reduction]) -> dict[str, Difference]:
    first = scores.predictions("clean", rivals[CONSTANT])
    others = {title: reduction for title, reduction in rivals.items() if title != CONSTANT}
    return {title: compare(scores.predictions("clean", other), first) for title, other in others.items()}


def _curves(scores: Mapping[str, Scores], settings: Settings) -> dict[tuple[str, str, str], dict[int, float]]:
    return {
        (name, view, method): {0: scores[name].accuracy(view, VANILLA)}
        | {r: scores[name].accuracy(view, Reduction.of(method, r)) for r in scores[name].tried(view, method)}
        for name in settings.compared
        for view in scores[name].views
        for method in settings.methods
    }


def _pairs(scores: Mapping[str, Scores], settings: Settings) -> dict[tuple[str, str, int, str], Difference]:
    pairs = {}
    cells = [
        (name, view, r) for name in settings.compared for view in scores[name].views for r in settings.amounts(name)
    ]
    for name, view, r in cells:
        ours = scores[name].predictions(view, Reduction.of(OURS, r))
        for other in (VANILLA, *(Reduction.of(method, r) for method in settings.methods if method != OURS)):
            pairs[name, view, r, other.method.name] = compare(ours, scores[name].predictions(view, other))
    return pairs
