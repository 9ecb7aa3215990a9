"""Differences between methods on the same images: each run against the reference's run of the same model and amount."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from catis.errors import CatisError
from catis.evaluate.metrics import Difference, compare
from catis.runs.record import Record
from catis.runs.store import Store


class Pair(NamedTuple):
    """A run, the reference's run, and what lies between them; `problem` says why there is no difference."""

    record: Record
    reference: Record | None
    difference: Difference | None
    problem: str = ""


def paired_differences(store: Store, records: Sequence[Record], against: str) -> list[Pair]:
    """Compare every run with the reference's run on the same images, model, precision and amounts.

    Args:
        store: Where the predictions are.
        records: The runs; the reference's are looked for among them.
        against: Name of a method, such as "tome" or, with calibrated weights, "tome calibrated"; "vanilla" for the
            vanilla model (then whatever the amounts); or name of one run.

    Raises:
        ValueError: The store has no run of the reference.
    """
    references = [record for record in records if against in (record.method_title, record.name)]
    if not references:
        known = ", ".join(sorted({record.method_title for record in records})) or "none"
        raise ValueError(f"--against {against}: no such run here; methods that are: {known}")
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
