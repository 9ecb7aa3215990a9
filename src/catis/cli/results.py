"""`catis results` and `catis report`: what a results store holds, as a table, CSV, Markdown or one page; queries."""

from __future__ import annotations

import io
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from rich.console import Console
from rich.markup import escape

from catis.cli.arguments import output_option
from catis.files import check_writable, write_whole
from catis.report.table import Table

if TYPE_CHECKING:
    from catis.evaluate.metrics import Pair
    from catis.runs.record import Record
    from catis.runs.store import Store

Patterns = list[str] | None
Format = Literal["table", "csv", "markdown"]


def results_command(
    store: Annotated[Path, typer.Argument(metavar="DIR", help="A results store, as `catis eval --store` writes it.")],
    model: Annotated[Patterns, typer.Option("--model", help="Only these, such as 'deit*'; may be repeated.")] = None,
    method: Annotated[Patterns, typer.Option("--method", "-m", help="Only these; may be repeated.")] = None,
    data: Annotated[Patterns, typer.Option("--data", help="Only these; may be repeated.")] = None,
    against: Annotated[
        str | None, typer.Option(metavar="METHOD", help="Paired differences from this method, `vanilla`, or one run.")
    ] = None,
    sql: Annotated[str | None, typer.Option(help="A DuckDB query over the tables results and predictions.")] = None,
    form: Annotated[Format, typer.Option("--format", help="csv has timm's columns first.")] = "table",
    output: Annotated[Path | None, output_option("Write to a file instead of the screen.")] = None,
) -> None:
    """Show what a results store holds, and compare methods image by image.

    Example: catis results runs --data imagenet --against tome --format markdown
    """
    if sql is not None and against is not None:
        raise ValueError("--sql and --against: one of them says what to print")
    if not store.is_dir():
        raise ValueError(f"{store} is not a folder: expected a results store, as `catis eval --store DIR` makes it")
    if output is not None:
        check_writable(output)

    from catis.evaluate.metrics import paired_differences
    from catis.runs.query import SUMMARY, filter_records, query, timm_table
    from catis.runs.store import Store

    opened = Store(store)
    records = filter_records(_whole(opened), {"model": model or (), "method": method or (), "data": data or ()})
    if against is not None:
        table = _differences(paired_differences(opened, records, against))
    elif sql is None and form == "csv":
        table = timm_table(records)
    else:
        table = query(opened, records, sql or SUMMARY)
    _print(table, form, output)


def report_command(
    folder: Annotated[
        Path, typer.Argument(metavar="DIR", help="A results store (eval --store, sweep), or a folder of `catis tune`.")
    ],
    output: Annotated[Path, output_option("HTML file to write.")] = Path("report.html"),
) -> None:
    """Write one self-contained page: the answer, the Pareto figure, tables with intervals, and where they come from.

    Example: catis report runs -o report.html
    """
    if not folder.is_dir():
        raise ValueError(f"{folder} is not a folder: expected a results store, or what `catis tune` wrote")
    check_writable(output, ".html")
    from catis.report.tune import TUNE_FILE, read_tuned, tune_page

    tuned = folder / TUNE_FILE
    write_whole(output, (tune_page(read_tuned(tuned)) if tuned.is_file() else _of_store(folder)).encode())
    Console(highlight=False, soft_wrap=True).print(f"wrote {output}", markup=False)


def _of_store(folder: Path) -> str:
    from catis.report.store import store_page
    from catis.runs.store import Store

    if not any(folder.glob("*.json")):
        raise ValueError(f"{folder}: neither records nor tune.json in it; pass a results store or a folder of tune")
    return store_page(Store(folder), shlex.join(["catis", *sys.argv[1:]]))


def _whole(store: Store) -> list[Record]:
    """Records that can be used; the others are named."""
    from catis.runs.store import Damaged

    records = []
    for entry in store.scan():
        if isinstance(entry, Damaged):
            _warn("damaged, left out", entry.reason)
        else:
            records.append(entry)
    return records


def _differences(pairs: Sequence[Pair]) -> Table:
    columns = ["model", "data", "method", "r", "top1", "points", "low", "high", "gained", "lost", "n", "p"]
    for pair in pairs:
        if pair.difference is None:
            _warn("not compared", f"{pair.record.name}: {pair.problem}")
    fewest_last = sorted(pairs, key=lambda pair: -pair.record.gmacs)  # amounts in order, however they are spelt
    rows = [_difference(pair) for pair in fewest_last if pair.difference is not None]
    return Table(columns, sorted(rows, key=lambda row: [str(cell) for cell in row[:3]]))


def _difference(pair: Pair) -> list[Any]:
    record, difference = pair.record, pair.difference
    assert difference is not None
    numbers = [round(value, 2) for value in (record.top1, difference.points, difference.low, difference.high)]
    counts = [difference.gained, difference.lost, difference.n, float(f"{difference.p_value:.2g}")]
    return [record.model, record.data_title, record.method_title, record.schedule, *numbers, *counts]


def _print(table: Table, form: Format, output: Path | None) -> None:
    text = io.StringIO()
    if form == "table":
        table.print(Console(file=text, width=Console().width))
    else:
        text.write(table.csv() if form == "csv" else table.markdown())
    if output is None:
        sys.stdout.write(text.getvalue())
    else:
        write_whole(output, text.getvalue().encode())
        Console(stderr=True).print(f"wrote {output}", highlight=False, soft_wrap=True)


def _warn(what: str, why: str) -> None:
    Console(stderr=True).print(f"[yellow]{what}:[/yellow] {escape(why)}", highlight=False, soft_wrap=True)
