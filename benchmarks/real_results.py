"""CSV files of our own numbers from the store that `plans/real-*.toml` filled: `real_results.py STORE --out results`.

One row per run: top-1 with its interval, GMACs, agreement, and paired differences at the same r: of methods from ToMe,
of CATIS from MCTF, and of ablations from the first row of their table.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from catis.evaluate.metrics import Difference, compare
from catis.registry import create_method
from catis.report.table import Table
from catis.runs.record import Record
from catis.runs.store import Store

METHODS = ("vanilla", "tome", "tofu", "pitome", "mctf", "catis")
ABLATIONS = {
    "signal": [{"signal": name} for name in ("fused", "cls", "nf")],
    "strategy": [{"strategy": name} for name in ("triage", "evict", "merge", "global")],
    "norm": [{"signal": name} for name in ("nf", "l2", "euclidean")],
}
COLUMNS = [
    "model", "data", "method", "options", "r", "gmacs", "gmacs_vanilla", "tokens", "n", "top1", "low", "high", "top5",
    "agreement", "against", "points", "points_low", "points_high", "gained", "lost", "p", "run",
]  # fmt: skip


def options_of(record: Record) -> dict[str, Any]:
    """Options that are not the method's defaults."""
    if record.method == "vanilla":
        return {}
    usual = create_method(record.method)
    return {name: value for name, value in record.options.items() if value != getattr(usual, name)}


def row(record: Record, options: str, against: str, found: Difference | None) -> list[Any]:
    paired = [None] * 6
    if found is not None:
        paired = [round(found.points, 2), round(found.low, 2), round(found.high, 2), found.gained, found.lost,
                  float(f"{found.p_value:.3g}")]  # fmt: skip
    return [
        record.model, record.data_title, record.method, options, record.r, round(record.gmacs, 4),
        round(record.gmacs_vanilla, 4), record.tokens[-1], record.n_read, round(record.top1, 2),
        round(record.top1_low, 2), round(record.top1_high, 2), round(record.top5, 2),
        None if record.agreement is None else round(record.agreement, 2), against if found else None, *paired,
        record.name,
    ]  # fmt: skip


def difference(
    store: Store, record: Record, records: Sequence[Record], method: str, options: dict[str, Any] | None = None
) -> Difference | None:
    """From a form of `method` at the same r on the same images; None for that run itself and for vanilla."""
    same = [
        one
        for one in records
        if one.method == method and options_of(one) == (options or {}) and one.name != record.name
        and (one.weights, one.data_fingerprint, one.r) == (record.weights, record.data_fingerprint, record.r)
    ]  # fmt: skip
    return compare(store.predictions(record.name), store.predictions(same[0].name)) if same else None


def methods_table(store: Store, records: Sequence[Record], against: str) -> list[list[Any]]:
    chosen = [one for one in records if not options_of(one)]
    chosen.sort(key=lambda one: (one.model, one.data_title, one.n_read, METHODS.index(one.method), one.r))
    return [row(one, "", against, difference(store, one, records, against)) for one in chosen]


def ablation_table(store: Store, records: Sequence[Record], variants: list[dict[str, str]]) -> list[list[Any]]:
    """Each variant against the first; runs of DeiT-Ti at the amounts of the plans."""
    usual = create_method("catis")
    changes = [{name: value for name, value in one.items() if value != getattr(usual, name)} for one in variants]
    rows = []
    for variant, changed in zip(variants, changes, strict=True):
        chosen = [one for one in records if one.method == "catis" and options_of(one) == changed]
        chosen = [one for one in chosen if one.model == "deit_tiny_patch16_224" and one.r in (13, 18, 23)]
        first, label = (" ".join(f"{name}={value}" for name, value in one.items()) for one in (variants[0], variant))
        rows += [row(one, label, first, difference(store, one, records, "catis", changes[0])) for one in chosen]
    return sorted(rows, key=lambda cells: (cells[1], cells[4]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("store", type=Path)
    parser.add_argument("--out", type=Path, default=Path("results"))
    arguments = parser.parse_args()
    store = Store(arguments.store)
    records = [one for one in store.records() if one.model in ("deit_tiny_patch16_224", "vit_tiny_patch16_224",
                                                               "vit_base_patch16_224")]  # fmt: skip
    tables = {"real-models": methods_table(store, records, "tome")}
    strongest = [cells for cells in methods_table(store, records, "mctf") if cells[2] == "catis"]
    tables["real-catis-against-mctf"] = strongest
    tables |= {f"ablation-{name}": ablation_table(store, records, rows) for name, rows in ABLATIONS.items()}
    for name, rows in tables.items():
        (arguments.out / f"{name}.csv").write_text(Table(COLUMNS, rows).csv())
        print(f"{name}.csv: {len(rows)} rows")


if __name__ == "__main__":
    main()
