"""One table for every place it is shown: the terminal, a page, a CSV file, Markdown."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Any, NamedTuple

from rich import box, table
from rich.console import Console
from rich.measure import Measurement
from rich.text import Text

STYLES = {"": "", "bold": "bold", "bad": "bold red"}
"""What a cell may be marked as, and how a terminal shows it; a page has a class of the same name."""
WIDEST = 1000
_NUMBER = re.compile(r"([-+<>~]? ?[0-9∞].*)?|-")


class Cell(NamedTuple):
    """A value that stands out: "bold" for the best of its kind, "bad" for what needs attention."""

    value: Any
    style: str = ""


@dataclass(frozen=True)
class Table:
    """Rows of values under named columns. Columns in which every cell is a number or begins with one go to the right.

    Example:
        >>> speeds = Table(["method", "ms"], [["tome", 4.5], ["catis", Cell(4.25, "bold")]])
        >>> print(speeds.markdown(), end="")
        | method | ms |
        | --- | --- |
        | tome | 4.5 |
        | catis | **4.25** |
    """

    columns: Sequence[str]  # their names
    # Values, or `Cell` for those that stand out; None is shown as nothing, a float in the shortest form.
    rows: Sequence[Sequence[Any]]
    title: str = ""  # stands above it
    note: str = ""  # stands below it: what the columns mean, and how the numbers came about
    grouped: int = 0  # a rule is drawn wherever one of this many first columns changes
    prose: bool = False  # the cells are sentences and may wrap; a table of numbers is never cut or wrapped

    def cells(self) -> list[list[Cell]]:
        """Every value as text, with its style."""
        return [[_as_text(value) for value in row] for row in self.rows]

    def numeric(self) -> list[bool]:
        """Of each column, whether it is one of numbers."""
        columns = zip(*self.cells(), strict=True) if self.rows else ((),) * len(self.columns)
        return [not self.prose and all(_NUMBER.fullmatch(cell.value) for cell in column) for column in columns]

    def print(self, console: Console) -> None:
        """Print it whole, also where it is wider than the screen, so that nothing is cut when it goes to a file."""
        shown = self.rich()
        if self.prose:
            console.print(shown)
        else:
            wide = console.options.update(width=WIDEST, max_width=WIDEST)
            width = max(Measurement.get(console, wide, shown).maximum, console.width)
            Console(file=console.file, width=width, highlight=False).print(shown, crop=False)
        if self.note:
            console.print(self.note, style="dim", markup=False, highlight=False)

    def rich(self) -> table.Table:
        """The same for a terminal, without the note."""
        shown = table.Table(
            title=Text(self.title) if self.title else None, title_justify="left", title_style="bold",
            box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0),
        )  # fmt: skip
        for name, numeric in zip(self.columns, self.numeric(), strict=True):
            shown.add_column(Text(name), justify="right" if numeric else "left", no_wrap=not self.prose)
        ends = self._ends()
        for place, row in enumerate(self.cells()):
            shown.add_row(*(Text(cell.value, STYLES[cell.style]) for cell in row), end_section=place in ends)
        return shown

    def html(self) -> str:
        """A heading, the table in a box that scrolls, and the note; `catis.report.page` has the style sheet."""
        numeric, ends = self.numeric(), self._ends()
        head = "".join(f"<th{_number(n)}>{escape(c)}</th>" for c, n in zip(self.columns, numeric, strict=True))
        body = "".join(
            f"<tr{' class=end' if place in ends else ''}>"
            + "".join(f"<td{_number(n)}>{_marked(cell)}</td>" for cell, n in zip(row, numeric, strict=True))
            + "</tr>\n"
            for place, row in enumerate(self.cells())
        )
        title = f"<h3>{escape(self.title)}</h3>" if self.title else ""
        note = f"<p class=note>{escape(self.note)}</p>" if self.note else ""
        kind = " class=prose" if self.prose else ""
        return (
            f"{title}<div class=scroll><table{kind}><thead><tr>{head}</tr></thead>\n"
            f"<tbody>{body}</tbody></table></div>{note}"
        )

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        return self.html()

    def csv(self) -> str:
        r"""Comma-separated lines with a header; floats with all their digits.

        Example:
            >>> Table(["a", "b"], [[1, None]]).csv()
            'a,b\n1,\n'
        """
        file = io.StringIO()
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(self.columns)
        writer.writerows([value.value if isinstance(value, Cell) else value for value in row] for row in self.rows)
        return file.getvalue()

    def markdown(self) -> str:
        """A table in Markdown, without title and note."""
        marked = [[f"**{cell.value}**" if cell.style else cell.value for cell in row] for row in self.cells()]
        lines = [self.columns, ["---"] * len(self.columns), *marked]
        return "".join("| " + " | ".join(cell.replace("|", r"\|") for cell in line) + " |\n" for line in lines)

    def _ends(self) -> set[int]:
        """Rows after which a group ends; sentences are ruled apart everywhere."""
        groups = [tuple(row[: self.grouped]) for row in self.rows]
        return {
            place
            for place in range(len(groups))
            if self.prose or (self.grouped and groups[place + 1 : place + 2] != [groups[place]])
        }


def _as_text(value: Any) -> Cell:
    if isinstance(value, Cell):
        return Cell(_as_text(value.value).value, value.style)
    return Cell("" if value is None else f"{value:g}" if isinstance(value, float) else str(value))


def _number(numeric: bool) -> str:
    return " class=number" if numeric else ""


def _marked(cell: Cell) -> str:
    text = escape(cell.value)
    return f"<b class={cell.style}>{text}</b>" if cell.style else text
