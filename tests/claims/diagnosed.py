"""What the files results/diagnostics-*.csv say, by model, method and block."""

from __future__ import annotations

import re
from itertools import pairwise
from math import log

from tests.test_doc_numbers import SHORT, page, read, tables

PAGE = "docs/diagnostics.md"
BANDS = {"shallow": "shallow", "deep": "deep", "all": "layers"}


def rows(model: str, what: str) -> list[dict[str, str]]:
    return read(f"diagnostics-{SHORT[model]}-{what}.csv")


def rho(model: str, signal: str, layer: str) -> float:
    """rho_s of one block or band."""
    (row,) = [row for row in rows(model, "rho_s") if (row["signal"], row["layer"]) == (signal, BANDS.get(layer, layer))]
    return float(row["mean"])


def extent(model: str, signals: tuple[str, ...], blocks: range, half_width: bool = False) -> tuple[float, float]:
    """Smallest and largest of some blocks: means, or half of their intervals."""
    few = [row for row in rows(model, "rho_s") if row["signal"] in signals and row["layer"] in map(str, blocks)]
    values = [(float(row["high"]) - float(row["low"])) / 2 if half_width else float(row["mean"]) for row in few]
    return min(values), max(values)


def off(model: str, column: str, *wanted: str) -> list[float]:
    """A column of the reduced model, where `wanted` are method, r and layer ("" for any)."""
    keys = ("method", "r", "layer")
    few = [row for row in rows(model, "reduction") if all(not w or row[k] == w for k, w in zip(keys, wanted))]  # noqa: B905
    return [float(row[column]) for row in few]


def above_matched(model: str, r: str = "") -> list[float]:
    pairs = zip(off(model, "rho_off", "", r), off(model, "matched", "", r), strict=True)
    return [have - level for have, level in pairs]


def fit(model: str, column: str, method: str = "catis", r: str = "r=13") -> float:
    (row,) = [row for row in rows(model, "fits") if (row["method"], row["r"]) == (method, r)]
    return float(row[column])


def critical(model: str, method: str, column: str) -> float:
    (row,) = [row for row in rows(model, "critical") if row["method"] == method]
    return float(row[column])


def vanilla_accuracy() -> float:
    head = re.search(
        r"^# vanilla_accuracy: ([\d.]+)$", page(f"results/diagnostics-{SHORT['DeiT-Ti']}-critical.csv"), re.MULTILINE
    )
    assert head is not None
    return float(head[1])


def assumptions(column: str, *blocks: str) -> list[float]:
    few = [row for row in rows("DeiT-Ti", "energy-assumptions") if not blocks or row["block"] in blocks]
    return [float(row[column]) for row in few]


def percent(values: list[float]) -> tuple[float, float]:
    return 100 * min(values), 100 * max(values)


def exponents() -> tuple[float, float]:
    """How the last row of the table of beta grows, step by step."""
    (table,) = [table for table in tables(page(PAGE)) if table[0][:2] == ["r", "2"]]
    points = [(int(r), float(d)) for r, d in zip(table[0][1:], table[3][1:], strict=True)]
    slopes = [log(d / c) / log(s / r) for (r, c), (s, d) in pairwise(points)]
    return min(slopes), max(slopes)


def first_order(column: str) -> float:
    run = [
        row
        for row in rows("DeiT-Ti", "energy")
        if row["features"] == f"{SHORT['DeiT-Ti']} block 1" and row["tokens"] == "512"
    ]
    return float(sorted(run, key=lambda row: float(row["sigma"]))[1][column])
