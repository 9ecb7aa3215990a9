"""One table in four forms: the same cells, nothing cut, nothing taken for markup."""

import csv
import io
import re
from xml.etree import ElementTree

import pytest
from rich.console import Console

from catis.report.table import Cell, Table

TABLE = Table(
    ["model", "method", "top1", "speed-up"],
    [
        ["tiny-12", "tome", 91.25, "1.1x"],
        ["tiny-12", "catis", Cell(92.5, "bold"), "-"],
        ["tiny <24>", "[red]catis[/red]", None, Cell("> 9 | 3", "bad")],
    ],
    title="A [bold] title",
    note="A note & more.",
    grouped=1,
)


def printed(table: Table, width: int = 40) -> list[str]:
    console = Console(file=io.StringIO(), width=width)
    table.print(console)
    return console.file.getvalue().splitlines()


def test_a_terminal_shows_every_cell_whole_and_reads_no_markup():
    lines = printed(TABLE)
    text = "\n".join(lines)
    for words in ("A [bold] title", "tiny <24>", "[red]catis[/red]", "> 9 | 3", "91.25", "A note & more."):
        assert words in text
    wide = Table(["a" * 60, "b" * 60], [["c" * 60, "d" * 60]])
    assert any("c" * 60 in line and "d" * 60 in line for line in printed(wide))


def test_numbers_go_to_the_right_and_groups_are_ruled_apart():
    assert TABLE.numeric() == [False, False, True, True]
    lines = [line.rstrip() for line in printed(TABLE)]
    first, second = (next(line for line in lines if word in line) for word in ("91.25", "92.5"))
    assert first.index("91.25") + 5 == second.index("92.5") + 4
    assert lines[lines.index(second) + 1] == ""  # the rule between groups
    assert lines[lines.index(first) + 1] == second


def test_sentences_wrap_instead():
    prose = Table(["claim"], [["word " * 30], ["other " * 3]], prose=True)
    assert max(map(len, printed(prose))) <= 40
    assert prose.numeric() == [False]


def test_html_is_well_formed_and_escaped():
    html = re.sub(r"class=(\w+)", r'class="\1"', TABLE.html())
    root = ElementTree.fromstring(f"<div>{html}</div>")
    cells = [["".join(cell.itertext()) for cell in row] for row in root.iter("tr")]
    assert cells[0] == list(TABLE.columns)
    assert cells[3] == ["tiny <24>", "[red]catis[/red]", "", "> 9 | 3"]
    assert [mark.get("class") for mark in root.iter("b")] == ["bold", "bad"]
    assert [row.get("class") for row in root.iter("tr")] == [None, None, "end", "end"]


def test_csv_keeps_values_and_markdown_keeps_columns():
    rows = list(csv.reader(io.StringIO(TABLE.csv())))
    assert rows[2:] == [["tiny-12", "catis", "92.5", "-"], ["tiny <24>", "[red]catis[/red]", "", "> 9 | 3"]]
    assert Table(["x"], [[0.1234567890123]]).csv() == "x\n0.1234567890123\n"
    lines = TABLE.markdown().splitlines()
    assert {len(re.findall(r"(?<!\\)\|", line)) for line in lines} == {5}
    assert r"**> 9 \| 3**" in lines[-1]


@pytest.mark.parametrize("rows", [[], [[1, 2]]])
def test_empty_tables_have_their_header(rows):
    table = Table(["a", "b"], rows)
    assert table.csv().startswith("a,b\n")
    assert "a" in printed(table)[1]
    assert "<th" in table.html()
