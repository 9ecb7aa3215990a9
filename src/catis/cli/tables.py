"""Rows of results as text: a table as wide as it must be, CSV, Markdown."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from typing import Any

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.measure import Measurement
from rich.table import Table

__all__ = ["as_csv", "as_markdown", "build_table", "print_table"]

Rows = Sequence[Sequence[Any]]
WIDEST = 1000


def build_table(columns: Sequence[str], rows: Rows, title: str | None = None) -> Table:
    """A table with numbers to the right."""
    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    for place, column in enumerate(columns):
        numeric = all(isinstance(row[place], (int, float, type(None))) for row in rows)
        table.add_column(column, justify="right" if numeric else "left", no_wrap=True)
    for row in rows:
        table.add_row(*(escape(_cell(value)) for value in row))
    return table


def print_table(console: Console, table: Table) -> None:
    """Print a table whole, also where it is wider than the screen, so that nothing is cut when it goes to a file."""
    wanted = Measurement.get(console, console.options.update(width=WIDEST, max_width=WIDEST), table).maximum
    whole = Console(file=console.file, width=max(wanted, console.width))
    whole.print(table, crop=False)


def as_csv(columns: Sequence[str], rows: Rows) -> str:
    r"""Comma-separated lines with a header.

    Example:
        >>> as_csv(["a", "b"], [[1, None]])
        'a,b\n1,\n'
    """
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(rows)
    return file.getvalue()


def as_markdown(columns: Sequence[str], rows: Rows) -> str:
    """A table in Markdown.

    Example:
        >>> print(as_markdown(["a", "b"], [[1, 2.5]]), end="")
        | a | b |
        | --- | --- |
        | 1 | 2.5 |
    """
    lines = [columns, ["---"] * len(columns), *rows]
    return "".join("| " + " | ".join(_cell(cell).replace("|", r"\|") for cell in line) + " |\n" for line in lines)


def _cell(value: Any) -> str:
    return "" if value is None else f"{value:g}" if isinstance(value, float) else str(value)
