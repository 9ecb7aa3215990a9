"""Long work is seen in a log as well as on a terminal."""

import io

import pytest
from rich.console import Console

from catis.cli import progress


def steps(console, capsys):
    with progress.progress_bar(console) as bar:
        task = bar.add_task("", total=1.0)
        bar.update(task, description="halving", completed=0.25)
        bar.update(task, description="searching \\[x]; best so far 0.2", completed=0.5)
    return capsys.readouterr().err.splitlines()


def test_a_log_gets_lines_now_and_then(monkeypatch, capsys):
    monkeypatch.setattr(progress, "EVERY", 0.0)
    lines = steps(Console(file=io.StringIO()), capsys)
    assert lines == ["0:00 25 % halving", "0:00 50 % searching [x]; best so far 0.2"]


def test_work_of_unknown_length_has_no_share(monkeypatch, capsys):
    monkeypatch.setattr(progress, "EVERY", 0.0)
    with progress.progress_bar(Console(file=io.StringIO())) as bar:
        bar.update(bar.add_task("", total=None), description="vanilla answers")
    assert capsys.readouterr().err == "0:00 vanilla answers\n"


@pytest.mark.parametrize("terminal", [True, False])
def test_short_work_and_terminals_get_none(terminal, monkeypatch, capsys):
    if terminal:
        monkeypatch.setattr(progress, "EVERY", 0.0)
    assert steps(Console(file=io.StringIO(), force_terminal=terminal), capsys) == []
