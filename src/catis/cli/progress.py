"""How far long work is: a bar on a terminal, now and then a line where there is none. Imports nothing heavy."""

from __future__ import annotations

import sys
import time
from typing import Any

from rich.console import Console
from rich.markup import render
from rich.progress import (
    BarColumn,
    Progress,
    TaskID,
    TaskProgressColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

EVERY = 30.0
"""Seconds between lines in a log: shorter work writes none."""


def progress_bar(console: Console) -> Progress:
    """The bar of every command that takes long; it goes away when it is done.

    Where the output is a file or a pipe, lines on the standard error stream say the same.
    """
    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeElapsedColumn())
    return _LoggedProgress(
        *columns, TextColumn("left:"), TimeRemainingColumn(), console=console, transient=True, speed_estimate_period=600
    )


class _LoggedProgress(Progress):
    """A bar that nobody would see where there is no terminal: there it writes lines."""

    def __init__(self, *columns: Any, **options: Any) -> None:
        super().__init__(*columns, **options)
        self._started = self._last = time.monotonic()

    def update(self, task_id: TaskID, **changes: Any) -> None:
        """Move the bar, or write a line if the last one is some time ago."""
        super().update(task_id, **changes)
        now = time.monotonic()
        if self.console.is_terminal or now - self._last < EVERY:
            return
        self._last = now
        print(self._line(task_id, now - self._started), file=sys.stderr, flush=True)

    def _line(self, task_id: TaskID, seconds: float) -> str:
        """As in "12:30 41 % what is done"."""
        task = self._tasks[task_id]
        share = "" if task.total is None else f" {task.percentage:.0f} %"
        return f"{int(seconds) // 60}:{int(seconds) % 60:02d}{share} {render(task.description).plain}"
