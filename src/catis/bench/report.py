"""What a benchmark found: one row per variant, with timm's column names where timm has the column."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from catis.files import write_whole
from catis.report.table import Table


@dataclass(frozen=True)
class Row:
    """One variant at one batch size. Times are milliseconds per pass of a batch; None was not or could not be measured.

    The first seven names are timm's, so that files join with those of its benchmark.py.
    """

    model: str  # name of the model
    infer_img_size: int  # side of the input
    infer_samples_per_sec: float | None  # images per second over all timed passes
    infer_step_time: float | None  # mean time
    infer_batch_size: int  # images per pass
    param_count: float  # millions of parameters
    infer_gmacs: float  # giga multiply-adds per image
    method: str  # method, or "vanilla"
    r: str  # tokens per block, as asked for
    torchcompile: bool  # whether it ran under torch.compile, as did its vanilla
    tokens_last: int  # patch tokens after the last block
    gmacs_ratio: float  # vanilla's multiply-adds over its own
    file: str = ""  # name of the exported file that ran; empty for a model
    number_format: str = ""  # of that file's products: float32 or int8
    speedup: float | None = None  # median over rounds of vanilla's time over its own in the same round
    speedup_low: float | None = None  # first quartile
    speedup_high: float | None = None  # third quartile
    efficiency: float | None = None  # speedup / gmacs_ratio
    suspicious: bool = False  # efficiency above 1.1
    # The same for the matrix products alone: the most that any implementation could reach here.
    roofline_speedup: float | None = None
    roofline_ms: float | None = None  # time of these products
    p50_ms: float | None = None  # median time
    p90_ms: float | None = None  # time that nine passes of ten stay below
    p99_ms: float | None = None  # time that 99 of 100 stay below
    rounds: int = 0  # timed passes
    peak_memory_mb: float | None = None  # most that a pass allocates at once, weights and input not counted
    lost_ms: float | None = None  # time beyond vanilla's over the MAC ratio; the five that follow add up to it
    products_ms: float | None = None  # matrix products that take longer than their share of multiply-adds
    choosing_ms: float | None = None  # choosing tokens
    merging_ms: float | None = None  # merging and evicting them
    bias_ms: float | None = None  # what the attention kernel takes longer because of the log-size bias
    rest_ms: float | None = None  # what is left: norms, activations, calls
    attention_map_ms: float | None = None  # the part of choosing that goes through the attention map a second time
    unfused_ms: float | None = None  # what the model's own attention takes longer than the fused kernel
    compile_seconds: float | None = None  # first pass under torch.compile
    reading_ms: float | None = None  # reading and preparing a batch, if images were given
    reasons: tuple[str, ...] = ()  # why it is not as fast as its multiply-adds promise
    error: str = ""  # why nothing was measured


@dataclass(frozen=True)
class Report:
    """Rows, vanilla first within each batch size, and what they depend on: device, threads, precision, versions."""

    rows: tuple[Row, ...]
    rig: Mapping[str, Any] = field(default_factory=dict)

    def _repr_html_(self) -> str:
        """What a notebook shows: speed-ups beside what the multiply-adds promise."""
        head = ["batch", "method", "r", "file", "ms", "speed-up", "MACs ratio", "efficiency", "error"]
        names = ("infer_batch_size", "method", "r", "file", "p50_ms", "speedup", "gmacs_ratio", "efficiency", "error")
        rows = [[_shown(getattr(row, name)) for name in names] for row in self.rows]
        rig = ", ".join(f"{name} {value}" for name, value in self.rig.items())
        return Table(head, rows, title=self.rows[0].model if self.rows else "", note=rig).html()

    def to_csv(self) -> str:
        """One line per row, the rig in the last columns."""
        lines = [{**asdict(row), "reasons": " | ".join(row.reasons), **self.rig} for row in self.rows]
        # Five digits are more than a timing has.
        rows = [[float(f"{v:.5g}") if isinstance(v, float) else v for v in line.values()] for line in lines]
        return Table(list(lines[0]), rows).csv()

    def to_json(self) -> str:
        """Rows and rig."""
        return json.dumps({"rig": dict(self.rig), "rows": [asdict(row) for row in self.rows]}, indent=1) + "\n"


def write_results(report: Report, path: Path) -> None:
    """Write CSV or JSON, as the name says; an old file stays whole until the new one is."""
    write_whole(path, (report.to_json() if path.suffix == ".json" else report.to_csv()).encode())


def _shown(value: Any) -> str:
    """Three digits, for a reader; nothing for what was not measured."""
    return "" if value is None else f"{value:.3g}" if isinstance(value, float) else str(value)
