"""Shares with their intervals, means over data sets, and differences between two runs on the same images."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from catis.diagnostics.estimates import mcnemar
from catis.errors import CatisError
from catis.runs.data_names import SHIFTED
from catis.runs.predictions import Predictions
from catis.runs.record import Record
from catis.runs.store import Store

RESAMPLES = 10_000


def agreement(first: Predictions, second: Predictions) -> tuple[float, int]:
    """Per cent of the images of both whose first class is the same, and how many images that is."""
    here, there = first.paired(second)
    return 100 * float((first.top[here, 0] == second.top[there, 0]).mean()), len(here)


def shift_average(records: Iterable[Record]) -> float | None:
    """Mean top-1 of ImageNet-A, -R and -Sketch, the paper's `Shift avg`; None unless all three are there."""
    top1 = {record.data: record.top1 for record in records if record.corruption is None}
    if not all(name in top1 for name in SHIFTED):
        return None
    return sum(top1[name] for name in SHIFTED) / len(SHIFTED)


def mean_corrupted_accuracy(records: Iterable[Record]) -> Mapping[str, tuple[float, int]]:
    """MCA of each data set: mean top-1 over corruptions and severities, and over how many of the 75 it is."""
    scores: dict[str, list[float]] = {}
    for record in records:
        if record.corruption is not None:
            scores.setdefault(record.data, []).append(record.top1)
    return {data: (sum(values) / len(values), len(values)) for data, values in scores.items()}


@dataclass(frozen=True)
class Difference:
    """Accuracy of one run minus that of another on the same images."""

    n: int  # images that both have
    gained: int  # images that only the one has right
    lost: int  # images that only the other has right
    points: float  # difference in percentage points
    low: float  # lower end of its 95 % bootstrap interval
    high: float  # upper end
    p_value: float  # exact McNemar test, two-sided


def compare(run: Predictions, reference: Predictions, *, resamples: int = RESAMPLES, seed: int = 0) -> Difference:
    """Compare a run with a reference image by image, top-1.

    Example:
        >>> labels = np.zeros(100, np.int64)
        >>> names, ones = [str(i) for i in range(100)], np.ones(100, np.float32)
        >>> good = Predictions(names, labels, labels[:, None], ones, ones)
        >>> bad = Predictions(names, labels, (np.arange(100) < 10)[:, None].astype(np.int64), ones, ones)
        >>> difference = compare(good, bad)
        >>> difference.points, difference.gained, round(difference.p_value, 4)
        (10.0, 10, 0.002)
    """
    here, there = run.paired(reference)
    if not np.array_equal(run.labels[here], reference.labels[there]):
        raise ValueError("the two runs have different labels for the same image: they were scored with different maps")
    first, second = run.correct()[here], reference.correct()[there]
    gained, lost, n = int((first & ~second).sum()), int((~first & second).sum()), len(here)
    low, high = _bootstrap(gained, lost, n, resamples, seed)
    return Difference(n, gained, lost, 100 * (gained - lost) / n, low, high, mcnemar(gained, lost))


def _bootstrap(gained: int, lost: int, n: int, resamples: int, seed: int) -> tuple[float, float]:
    """Percentile interval. Each image's difference is +1, -1 or 0, so drawing images is drawing counts of the three."""
    shares = np.array([gained, lost, n - gained - lost]) / n
    counts: NDArray[np.int64] = np.random.default_rng(seed).multinomial(n, shares, size=resamples)
    low, high = np.percentile(100 * (counts[:, 0] - counts[:, 1]) / n, [2.5, 97.5])
    return float(low), float(high)


class Pair(NamedTuple):
    """A run, the reference's run, and what lies between them; `problem` says why there is no difference."""

    record: Record
    reference: Record | None
    difference: Difference | None
    problem: str = ""


def paired_differences(store: Store, records: Sequence[Record], against: str) -> list[Pair]:
    """Compare every run with the reference's run on the same images, model, precision and amounts.

    `against` names a method, such as "tome" or "tome calibrated"; "vanilla", whatever the amounts; or one run. It is
    looked for among the records.
    """
    references = [record for record in records if against in (record.method_title, record.name)]
    if not references:
        known = ", ".join(sorted({record.method_title for record in records})) or "none"
        raise ValueError(f"--against {against}: no such run here; methods here: {known}")
    chosen = {record.name for record in references}
    free = against == "vanilla" or against in chosen  # a single run is the reference whatever the amounts
    return [
        _pair(store, record, references, free)
        for record in records
        if record.name not in chosen and (free or record.method != "vanilla")  # which has no amounts to match
    ]


def _pair(store: Store, record: Record, references: Sequence[Record], free: bool) -> Pair:
    fitting = [
        candidate
        for candidate in references
        if _same(record, candidate) and (free or list(candidate.amounts) == list(record.amounts))
    ]
    if len(fitting) != 1:
        several = f"several reference runs fit; name one of them: {', '.join(record.name for record in fitting)}"
        return Pair(record, None, None, several if fitting else "no reference run of the same model, data and amounts")
    try:
        difference = compare(store.predictions(record.name), store.predictions(fitting[0].name))
    except (CatisError, OSError, ValueError) as error:
        return Pair(record, fitting[0], None, str(error))
    return Pair(record, fitting[0], difference)


def _same(record: Record, other: Record) -> bool:
    fields = ("weights", "preprocessing", "data", "corruption", "severity", "data_fingerprint", "precision", "compiled")
    return all(getattr(record, field) == getattr(other, field) for field in fields)
