"""The demo's numbers for other programs: all but the timings as JSON, the table as CSV."""

from __future__ import annotations

import csv
import dataclasses
import io
import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

from catis.demo.claims import judge_claims
from catis.demo.findings import Findings

__all__ = ["numbers_json", "table_csv"]


def numbers_json(found: Findings) -> str:
    """Everything but the timings: the same text for the same seed on one machine."""
    return json.dumps(_plain(_numbers(found)), indent=1, allow_nan=False) + "\n"


def _numbers(found: Findings) -> dict[str, Any]:
    rows = [{k: v for k, v in dataclasses.asdict(row).items() if k != "speed_up"} for row in found.rows]
    limits = [
        {"view": view, **_without(dataclasses.asdict(one), "draws"), "interval": one.interval}
        for view, ones in found.limits.items()
        for one in ones.values()
    ]
    laws = [
        {"view": view, "method": law.method, "fit": law.fit and dataclasses.asdict(law.fit)}
        for view, ones in found.laws.items()
        for law in ones.values()
    ]
    claims = [dataclasses.asdict(one) for one in judge_claims(found)[:-1]]  # the last rests on timings
    return {
        "settings": dataclasses.asdict(found.settings),
        "n": found.n,
        "rows": rows,
        "curves": [{"model": m, "view": v, "method": k, "accuracy": c} for (m, v, k), c in found.curves.items()],
        "catis_minus": [
            {"model": m, "view": v, "r": r, "method": k, **dataclasses.asdict(p), "verdict": p.verdict}
            for (m, v, r, k), p in found.pairs.items()
        ],
        "r_crit": limits,
        "laws": laws,
        "probes": {name: dataclasses.asdict(one) for name, one in found.probed.items()},
        "claims": claims,
    }


def _without(fields: dict[str, Any], name: str) -> dict[str, Any]:
    return {key: value for key, value in fields.items() if key != name}


def _plain(value: Any) -> Any:
    """Ready for JSON: text as keys, NaN as null."""
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_plain(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def table_csv(found: Findings) -> str:
    """The table; columns that rest on timings begin with "measured"."""
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    measured = ["measured_speed_up", "measured_lower_quartile", "measured_upper_quartile", "measured_efficiency"]
    columns = [column for view in found.n for column in (f"accuracy_{view}", f"n_{view}")]
    writer.writerow(["model", "method", "r", "tokens_left", "gmacs", "macs_ratio", *columns, *measured])
    for row in found.rows:
        accuracy = [value for view in found.n for value in (f"{row.accuracy[view]:.6f}", found.n[view])]
        times = [f"{value:.4f}" for value in (*row.speed_up, row.efficiency)]
        cost = [row.tokens, f"{row.gmacs:.6f}", f"{row.ratio:.4f}"]
        writer.writerow([row.model, row.method, row.r, *cost, *accuracy, *times])
    return file.getvalue()
