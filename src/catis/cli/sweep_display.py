"""What `catis sweep` shows: a bar and a line for each run, the table of a dry run, and the end."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape

from catis.cli.progress import progress_bar
from catis.report.table import Table
from catis.runs.record import Record
from catis.runs.store import Store
from catis.sweep.events import Events
from catis.sweep.jobs import Job
from catis.sweep.preview import Preview

SHOWN = 10
"""Broken images that are named on the screen; the record has all."""


class ShownEvents(Events):
    """A bar over all runs, weighed by their work (GMACs times images), and a line for each run that ends."""

    def __init__(self, console: Console, jobs: Sequence[Job], work: Sequence[float], *, strict: bool = False) -> None:
        super().__init__()
        self.strict = strict
        self._console, self._jobs = console, jobs
        self._work = {job.label: amount for job, amount in zip(jobs, work, strict=True)}
        self._total, self._ended = sum(self._work.values()), 0.0
        self.bar = progress_bar(console)
        self._task = self.bar.add_task("", total=self._total)

    def run(self, runner: Callable[..., None], store: Store | None, *arguments: Any, **options: Any) -> bool:
        """Do all runs under the bar; whether nobody pressed Ctrl-C."""
        try:
            with self.bar:
                runner(self._jobs, store, self, *arguments, **options)
        except KeyboardInterrupt:
            return False
        return True

    def all_records(self, store: Store | None) -> list[Record]:
        """Records of all runs, also of those that were done before, in the order of the runs."""
        names = {job.label: name for job, name in self.skipped}
        done = {job.label: record for job, record in self.records}
        by_name = {record.name: record for record in done.values()}
        for label, name in names.items():
            done[label] = by_name[name] if name in by_name or store is None else store.read(name)
        return [done[job.label] for job in self._jobs if job.label in done]

    def preparing(self, what: str) -> None:
        """Name it."""
        self.bar.update(self._task, description=escape(f"opening {what}"))

    def started(self, job: Job, worker: int) -> None:
        """Name it."""
        self.bar.update(self._task, description=escape(f"{self._place()} {job.label}"))

    def advanced(self, job: Job, done: int, total: int) -> None:
        """Move the bar."""
        self.bar.update(self._task, completed=self._ended + self._work[job.label] * done / total)

    def lost(self, job: Job, reason: str) -> None:
        """Say so."""
        self._console.print(f"[yellow]worker lost, begun again:[/yellow] {escape(job.label)}: {escape(reason)}")

    def noted(self, note: str) -> None:
        """Say it."""
        self._console.print(f"[yellow]note:[/yellow] {escape(note)}")

    def finished(self, job: Job, record: Record) -> None:
        """Say what came out."""
        super().finished(job, record)
        self._end(job)
        same = "" if record.agreement is None else f", agreement {record.agreement:.1f} %"
        self._console.print(
            f"{self._place()} {escape(job.label)}: top-1 {record.top1:.2f} % (n={record.n_read}){same}, "
            f"{record.gmacs:.2f} GMACs, {record.environment['seconds']:.1f} s"
        )
        for name, reason in record.broken[:SHOWN]:
            self._console.print(f"[yellow]not read:[/yellow] {escape(f'{name}: {reason}')}")
        if record.n_broken > SHOWN:
            self._console.print(f"... {record.n_broken} in all, each named in the record")

    def known(self, job: Job, name: str) -> None:
        """Take it off the work that is left."""
        super().known(job, name)
        self._total -= self._work[job.label]
        self.bar.update(self._task, total=self._total)

    def failed(self, job: Job, error: str) -> None:
        """Say so now; the end says it again."""
        super().failed(job, error)
        self._end(job)
        self._console.print(f"[red]failed:[/red] {escape(job.label)}: {escape(error)}")

    def _place(self) -> str:
        return f"{len(self.records) + len(self.skipped) + len(self.failures)}/{len(self._jobs)}"

    def _end(self, job: Job) -> None:
        self._ended += self._work[job.label]
        self.bar.update(self._task, completed=self._ended)


def show_summary(events: Events, total: int, store: Path, interrupted: bool, console: Console) -> None:
    """Print how many runs ended how, every failure, and how to see the results."""
    done, before, failed = len(events.records), len(events.skipped), len(events.failures)
    lines = [f"{done} runs done, {before} done before, {failed} failed, of {total}"]
    lines += [f"[red]failed:[/red] {escape(job.label)}: {escape(error)}" for job, error in events.failures]
    if interrupted:
        lines.append("stopped; what is done is kept, and the same command goes on from here")
    for line in [*lines, f"see them with:  catis results {escape(str(store))}"]:
        console.print(line)


def show_preview(seen: Preview, store: Path, console: Console) -> None:
    """Print the runs of a plan, what they cost, and what is missing."""
    rows = [
        [line.job.label, line.images, round(line.gmacs, 2), f"{line.share:.1%}", _time(line.seconds), line.state]
        for line in seen.lines
    ]
    columns = ["run", "images", "GMACs", "of vanilla", "time", "state"]
    Table(columns, rows, title=f"{len(rows)} runs into {store}").print(console)
    known = [line.seconds for line in seen.lines if line.seconds is not None]
    unknown = len(rows) - len(known)
    lines = [
        f"about {_time(sum(known))} to go" + (f", and {unknown} runs whose time is not known" if unknown else ""),
        "estimated as images x GMACs / rate; the rate is that of vanilla with random weights, timed just now. "
        "Reading images and choosing tokens come on top.",
        *(f"  {escape(line)}" for line in seen.how),
        *(f"[red]missing:[/red] {escape(problem)}" for problem in seen.problems),
    ]
    for line in lines:
        console.print(line)


def _time(seconds: float | None) -> str:
    """A duration as people say it.

    Example:
        >>> _time(None), _time(12.3), _time(600), _time(9000)
        ('?', '12 s', '10 min', '2.5 h')
    """
    if seconds is None:
        return "?"
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
