"""What `catis bench` prints: the rows, where their time went, what the columns mean, and the reasons."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from rich.console import Console
from rich.markup import escape

from catis.bench import Report, Row
from catis.report.table import Cell, Table

TIMES = (
    "batch", "method", "r", "im/s", "p50 ms", "p90", "p99", "n", "MAC ratio", "speed-up", "quartiles", "roofline",
    "efficiency", "MB",
)  # fmt: skip
LOST = ("batch", "method", "r", "lost ms", "products", "choosing", "of it map", "merging", "bias", "rest")
NOTES = (
    "speed-up: median over rounds of vanilla's time over the row's; efficiency: speed-up / MAC ratio",
    "roofline: speed-up of the matrix products alone on the same shapes, the most anyone could reach",
    "MB: most that one pass allocates at once, without weights and input",
)
FILE_NOTE = "roofline: speed-up of the nodes that are matrix products, by the runtime's own profiler"
LOST_NOTE = "lost: time beyond vanilla's / MAC ratio; products, choosing, merging, bias, rest add up to it"


def show(report: Report, console: Console) -> None:
    """Print the rows, where their time went, what the columns mean, and the reasons."""
    rig, first = report.rig, report.rows[0]
    start = f"{first.model}, {first.infer_img_size} px, {rig['device']}, {rig['threads']} threads"
    chosen = f"tokens chosen by {rig['chosen_by']}"
    console.print(f"{start}, {rig['precision']}, torch {rig['torch']}, {chosen}", markup=False)
    for line in _what_ran(report):
        console.print(line, markup=False)
    with_causes = any(row.roofline_speedup is not None for row in report.rows)
    notes = list(NOTES if with_causes else NOTES[:1])
    if with_causes and first.file:
        notes[1:] = [FILE_NOTE]
    fewest = min((row.rounds for row in report.rows if row.rounds), default=0)
    if 0 < fewest < 100:
        notes.append(f"p99 of {fewest} passes is nearly the slowest of them")
    _table(TIMES, report.rows, _times, "\n".join(notes)).print(console)
    if with_causes:
        _table(LOST, [row for row in report.rows if row.lost_ms is not None], _lost, LOST_NOTE).print(console)
    _reasons(report, console)


def _what_ran(report: Report) -> list[str]:
    """What every row is, where it is an exported file."""
    files = {row.file: row for row in report.rows if row.file}
    if files:
        return [f"{name}: {row.method} r={row.r}, {row.number_format}" for name, row in files.items()]
    if report.rig["runtime"] != "torch":
        return ["every row is an exported file; the parts of a pass are told apart in PyTorch only"]
    return []


def _table(columns: Sequence[str], rows: Sequence[Row], cells: Callable[[Row], list[Any]], note: str) -> Table:
    lines = []
    for row in rows:
        name = row.file or (f"{row.method} (compiled)" if row.torchcompile else row.method)
        line = [row.infer_batch_size, name, row.r, *cells(row)]
        lines.append(line + [None] * (len(columns) - len(line)))
    return Table(columns, lines, note=note, grouped=1)


def _times(row: Row) -> list[Any]:
    if row.error:
        return [Cell(row.error, "bad")]
    quartiles = "-" if row.speedup_low is None else f"{row.speedup_low:.2f}-{row.speedup_high:.2f}"
    efficiency = Cell(f"{row.efficiency:.2f} !", "bad") if row.suspicious else _number(row.efficiency, 2)
    return [
        _number(row.infer_samples_per_sec, 1), _number(row.p50_ms, 1), _number(row.p90_ms, 1), _number(row.p99_ms, 1),
        row.rounds, _number(row.gmacs_ratio, 2), _number(row.speedup, 2), quartiles,
        _number(row.roofline_speedup, 2), efficiency, _number(row.peak_memory_mb, 1),
    ]  # fmt: skip


def _lost(row: Row) -> list[Any]:
    parts = (row.products_ms, row.choosing_ms, row.attention_map_ms, row.merging_ms, row.bias_ms, row.rest_ms)
    return [_number(value, 1) for value in (row.lost_ms, *parts)]


def _number(value: float | None, digits: int) -> str:
    return "-" if value is None else f"{value:.{digits}f}"


def _reasons(report: Report, console: Console) -> None:
    """Each reason once, with the rows it holds for."""
    rows_of: dict[tuple[bool, int, str], list[str]] = {}
    for row in report.rows:
        for reason in row.reasons:
            rows_of.setdefault((row.torchcompile, row.infer_batch_size, reason), []).append(
                row.file or f"{row.method} r={row.r}"
            )
    for (compiled, batch, reason), names in rows_of.items():
        where = f"batch {batch}{' compiled' if compiled else ''}"
        console.print(f"[bold]{where}, {', '.join(names)}:[/bold] {escape(reason)}")
