"""`catis results`: what a results store holds, as a table, CSV or Markdown; queries, and paired differences."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from rich.console import Console
from rich.markup import escape

from catis.cli.tables import as_csv, as_markdown, build_table, print_table
from catis.evaluate.paired import Pair, paired_differences
from catis.runs.query import SUMMARY, Answer, filter_records, query
from catis.runs.record import Record, timm_row
from catis.runs.spec import DataSpec
from catis.runs.store import Damaged, Store

__all__ = ["results_command"]

Patterns = list[str] | None
Format = Literal["table", "csv", "markdown"]


def results_command(
    store: Annotated[Path, typer.Argument(metavar="DIR", help="a results store, as `catis eval --store` writes it")],
    model: Annotated[Patterns, typer.Option("--model", help="only these, such as 'deit*'; may be repeated")] = None,
    method: Annotated[Patterns, typer.Option("--method", "-m", help="only these; may be repeated")] = None,
    data: Annotated[Patterns, typer.Option("--data", help="only these; may be repeated")] = None,
    against: Annotated[
        str | None, typer.Option(metavar="METHOD", help="paired differences from this method, `vanilla`, or one run")
    ] = None,
    sql: Annotated[str | None, typer.Option(help="a DuckDB query over the tables results and predictions")] = None,
    form: Annotated[Format, typer.Option("--format", help="csv has timm's columns first")] = "table",
    output: Annotated[Path | None, typer.Option("--output", "-o", metavar="FILE", help="write to a file")] = None,
) -> None:
    """Show what a results store holds, and compare methods image by image.

    Example: catis results runs --data imagenet --against tome --format markdown
    """
    if sql is not None and against is not None:
        raise ValueError("--sql and --against: one of them says what to print")
    if not store.is_dir():
        raise ValueError(f"{store} is not a folder: expected a results store, as `catis eval --store DIR` makes it")
    opened = Store(store)
    records = filter_records(_whole(opened), {"model": model or (), "method": method or (), "data": data or ()})
    if against is not None:
        answer = _differences(paired_differences(opened, records, against))
    elif sql is None and form == "csv":
        answer = _timm(records)
    else:
        answer = query(opened, records, sql or SUMMARY)
    _print(answer, form, output)


def _whole(store: Store) -> list[Record]:
    """Records that can be used; the others are named."""
    records = []
    for found in store.scan():
        if isinstance(found, Damaged):
            line = f"[yellow]damaged, left out:[/yellow] {escape(found.reason)}"
            Console(stderr=True).print(line, highlight=False, soft_wrap=True)
        else:
            records.append(found)
    return records


def _timm(records: Sequence[Record]) -> Answer:
    rows = [timm_row(record) for record in records]
    return Answer(list(rows[0]), [list(row.values()) for row in rows]) if rows else Answer([], [])


def _differences(pairs: Sequence[Pair]) -> Answer:
    columns = ["model", "data", "method", "r", "top1", "points", "low", "high", "gained", "lost", "n", "p"]
    for pair in pairs:
        if pair.difference is None:
            line = f"[yellow]not compared:[/yellow] {escape(f'{pair.record.name}: {pair.problem}')}"
            Console(stderr=True).print(line, highlight=False, soft_wrap=True)
    fewest_last = sorted(pairs, key=lambda pair: -pair.record.gmacs)  # amounts in order, however they are spelt
    rows = [_difference(pair) for pair in fewest_last if pair.difference is not None]
    return Answer(columns, sorted(rows, key=lambda row: [str(cell) for cell in row[:3]]))


def _difference(pair: Pair) -> list[Any]:
    record, found = pair.record, pair.difference
    assert found is not None
    data = DataSpec(record.data, corruption=record.corruption, severity=record.severity).title
    numbers = [round(value, 2) for value in (record.top1, found.points, found.low, found.high)]
    counts = [found.gained, found.lost, found.n, float(f"{found.p_value:.2g}")]
    return [record.model, data, record.method, record.schedule, *numbers, *counts]


def _print(answer: Answer, form: Format, output: Path | None) -> None:
    with nullcontext(sys.stdout) if output is None else output.open("w", encoding="utf-8") as file:
        if form == "table":
            print_table(Console(file=file), build_table(answer.columns, answer.rows))
        else:
            file.write((as_csv if form == "csv" else as_markdown)(answer.columns, answer.rows))
    if output is not None:
        Console(stderr=True).print(f"wrote {output}", highlight=False, soft_wrap=True)
