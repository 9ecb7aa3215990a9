"""What `catis bench` prints: the rows, where their time went, what the columns mean, and the reasons."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from catis.bench import Report, Row
from catis.cli.tables import print_table

__all__ = ["show"]

TIMES = (
    "batch", "method", "r", "im/s", "p50 ms", "p90", "p99", "n", "MAC ratio", "speed-up", "quartiles", "light",
    "efficiency", "MB",
)  # fmt: skip
LOST = ("batch", "method", "r", "lost ms", "products", "choosing", "of it map", "merging", "bias", "rest")


def show(report: Report, console: Console) -> None:
    """Print the rows, where their time went, what the columns mean, and the reasons."""
    rig, first = report.rig, report.rows[0]
    start = f"{first.model}, {first.infer_img_size} px, {rig['device']}, {rig['threads']} threads"
    chosen = f"tokens chosen by {rig['chosen_by']}"
    console.print(f"{start}, {rig['precision']}, torch {rig['torch']}, {chosen}", markup=False)
    print_table(console, _table(TIMES, report.rows, _times))
    console.print("speed-up: median over rounds of vanilla's time over the row's; efficiency: speed-up / MAC ratio")
    fewest = min((row.rounds for row in report.rows if row.rounds), default=0)
    if 0 < fewest < 100:
        console.print(f"p99 of {fewest} passes is nearly the slowest of them")
    if any(row.light_speedup is not None for row in report.rows):
        console.print("light: speed-up of the matrix products alone on the same shapes, the most anyone could reach")
        console.print("MB: most that one pass allocates at once, without weights and input")
        print_table(console, _table(LOST, [row for row in report.rows if row.lost_ms is not None], _lost))
        console.print("lost: time beyond vanilla's / MAC ratio; products, choosing, merging, bias, rest add up to it")
    _reasons(report, console)


def _table(columns: Sequence[str], rows: Sequence[Row], cells: Callable[[Row], list[str]]) -> Table:
    table = Table()
    for column in columns:
        table.add_column(column, justify="left" if column == "method" else "right", no_wrap=True)
    for before, row in zip((None, *rows), rows, strict=False):
        if before is not None and _case(before) != _case(row):
            table.add_section()
        name = f"{row.method} (compiled)" if row.torchcompile else row.method
        table.add_row(str(row.infer_batch_size), name, row.r, *cells(row))
    return table


def _case(row: Row) -> tuple[bool, int]:
    return row.torchcompile, row.infer_batch_size


def _times(row: Row) -> list[str]:
    if row.error:
        return [f"[red]{escape(row.error)}[/red]"]
    quartiles = "-" if row.speedup_low is None else f"{row.speedup_low:.2f}-{row.speedup_high:.2f}"
    efficiency = f"[bold red]{row.efficiency:.2f} ![/bold red]" if row.suspicious else _number(row.efficiency, 2)
    return [
        _number(row.infer_samples_per_sec, 1), _number(row.p50_ms, 1), _number(row.p90_ms, 1), _number(row.p99_ms, 1),
        str(row.rounds), _number(row.gmacs_ratio, 2), _number(row.speedup, 2), quartiles,
        _number(row.light_speedup, 2), efficiency, _number(row.peak_memory_mb, 1),
    ]  # fmt: skip


def _lost(row: Row) -> list[str]:
    parts = (row.products_ms, row.choosing_ms, row.attention_map_ms, row.merging_ms, row.bias_ms, row.rest_ms)
    return [_number(value, 1) for value in (row.lost_ms, *parts)]


def _number(value: float | None, digits: int) -> str:
    return "-" if value is None else f"{value:.{digits}f}"


def _reasons(report: Report, console: Console) -> None:
    """Each reason once, with the rows it holds for."""
    found: dict[tuple[tuple[bool, int], str], list[str]] = {}
    for row in report.rows:
        for reason in row.reasons:
            found.setdefault((_case(row), reason), []).append(f"{row.method} r={row.r}")
    for ((compiled, batch), reason), names in found.items():
        where = f"batch {batch}{' compiled' if compiled else ''}"
        console.print(f"[bold]{where}, {', '.join(names)}:[/bold] {escape(reason)}")
