"""What happens during a sweep, for whoever shows it; kept, so that the end can say what came out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from catis.errors import CatisError
from catis.runs.record import Record
from catis.sweep.jobs import Job

FAILURES = (
    CatisError, ArithmeticError, AssertionError, AttributeError, LookupError, MemoryError, OSError, RuntimeError,
    TypeError, ValueError,
)  # fmt: skip
"""What ends one run and not the sweep: anything but being told to stop."""
T = TypeVar("T")


class Events:
    """Collects what came of each run. A display overrides the methods and calls them too.

    Attributes:
        records: Runs done in this sweep.
        skipped: Runs that the store had already, with their names.
        failures: Runs that ended in an error, with what it said.
    """

    strict = False
    """Whether the first failure ends everything; otherwise it is kept, and the other runs go on."""

    def __init__(self) -> None:
        self.records: list[tuple[Job, Record]] = []
        self.skipped: list[tuple[Job, str]] = []
        self.failures: list[tuple[Job, str]] = []

    def preparing(self, what: str) -> None:
        """A model or data set is being opened."""

    def started(self, job: Job, worker: int) -> None:
        """A run begins, in the process of this id."""

    def advanced(self, job: Job, done: int, total: int) -> None:
        """A run has done so many images."""

    def lost(self, job: Job, reason: str) -> None:
        """A worker died during a run, which is done again."""

    def noted(self, note: str) -> None:
        """Something that the user should know, such as a cache that is full."""

    def finished(self, job: Job, record: Record) -> None:
        """A run is done and in the store."""
        self.records.append((job, record))

    def known(self, job: Job, name: str) -> None:
        """A run of this name is in the store already, or was done for another entry of the plan."""
        self.skipped.append((job, name))

    def failed(self, job: Job, error: str) -> None:
        """A run ended in an error."""
        self.failures.append((job, error))


def attempt(events: Events, jobs: list[Job], action: Callable[..., T], *arguments: Any, **named: Any) -> T | None:
    """Do something that these runs need; if it fails, they fail, and the sweep goes on.

    Example:
        >>> events = Events()
        >>> attempt(events, [], int, "7")
        7
        >>> attempt(events, [], int, "seven") is None
        True
    """
    try:
        return action(*arguments, **named)
    except FAILURES as error:
        if events.strict:
            raise
        for job in jobs:
            events.failed(job, describe(error))
        return None


def describe(error: BaseException) -> str:
    """An error in one line."""
    said = " ".join(str(error).split())
    return f"{type(error).__name__}: {said}" if said else type(error).__name__
