"""The demo's numbers for other programs: all but the timings as JSON, the table as CSV."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

from catis.demo.claims import judge_claims, verdict
from catis.demo.findings import Findings, Row
from catis.diagnostics.report import plain_values
from catis.report.table import Table

__all__ = ["numbers_json", "table_csv"]


def numbers_json(findings: Findings) -> str:
    """Everything but the timings: the same text for the same seed on one machine."""
    return json.dumps(plain_values(_numbers(findings)), indent=1, allow_nan=False) + "\n"


def _numbers(findings: Findings) -> dict[str, Any]:
    return {
        "settings": asdict(findings.settings),
        "n": findings.n,
        "rows": [_without(asdict(row), "speed_up") for row in findings.rows],
        "curves": [{"model": m, "view": v, "method": k, "accuracy": c} for (m, v, k), c in findings.curves.items()],
        "catis_minus": [
            {"model": m, "view": v, "r": r, "method": k, **asdict(pair), "verdict": verdict(pair)}
            for (m, v, r, k), pair in findings.pairs.items()
        ],
        "r_crit": [
            {"view": view, **_without(asdict(limit), "draws"), "interval": limit.interval}
            for view, limits in findings.limits.items()
            for limit in limits.values()
        ],
        "laws": [
            {"view": view, "method": law.method, "fit": law.fit and asdict(law.fit)}
            for view, laws in findings.laws.items()
            for law in laws.values()
        ],
        "probes": {name: asdict(probed) for name, probed in findings.probed.items()},
        "claims": [asdict(claim) for claim in judge_claims(findings)[:-1]],  # the last rests on timings
    }


def _without(fields: dict[str, Any], name: str) -> dict[str, Any]:
    return {key: value for key, value in fields.items() if key != name}


def table_csv(findings: Findings) -> str:
    """The table; columns that rest on timings begin with "measured"."""
    measured = ["measured_speed_up", "measured_lower_quartile", "measured_upper_quartile", "measured_efficiency"]
    views = [column for view in findings.n for column in (f"accuracy_{view}", f"n_{view}")]
    columns = ["model", "method", "r", "tokens_left", "gmacs", "macs_ratio", *views, *measured]
    return Table(columns, [_csv_row(row, findings.n) for row in findings.rows]).csv()


def _csv_row(row: Row, n: dict[str, int]) -> list[Any]:
    accuracy = [value for view, count in n.items() for value in (f"{row.accuracy[view]:.6f}", count)]
    times = [f"{value:.4f}" for value in (*row.speed_up, row.efficiency)]
    return [row.model, row.method, row.r, row.tokens, f"{row.gmacs:.6f}", f"{row.ratio:.4f}", *accuracy, *times]
