"""`catis sweep`: reads a plan, runs what is not done yet, shows progress, and says at the end what failed."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table

from catis.evaluate.cache import ImageCache, default_cache
from catis.runs.record import Record
from catis.runs.store import Store
from catis.sweep.checks import look_for_inputs
from catis.sweep.costs import costs
from catis.sweep.events import Events
from catis.sweep.jobs import Job, expand
from catis.sweep.local import run_here
from catis.sweep.plan import read_plan
from catis.sweep.preview import Preview, preview
from catis.sweep.table import PlanError

__all__ = ["sweep_command"]

FAILED, INTERRUPTED = 1, 130


def sweep_command(
    plan: Annotated[Path, typer.Argument(metavar="PLAN.toml", help="What to run; docs/sweeps.md has the format.")],
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only print runs, GMACs and an estimate of time.")] = False,
    store: Annotated[Path | None, typer.Option(metavar="DIR", help="Results go here, not where the plan says.")] = None,
    limit: Annotated[
        int | None, typer.Option("--limit", "-n", min=1, help="At most so many images of each set.")
    ] = None,
    only: Annotated[
        list[str] | None,
        typer.Option(metavar="PATTERN", help="Only runs whose line matches, such as 'vit-s*' or '*catis r=13*'."),
    ] = None,
    skip: Annotated[list[str] | None, typer.Option(metavar="PATTERN", help="Not the runs whose line matches.")] = None,
    ray: Annotated[
        str | None,
        typer.Option(metavar="ADDRESS", help="Run on a Ray cluster: an address, 'auto', or 'local' to start one."),
    ] = None,
    threads: Annotated[int | None, typer.Option(min=1, help="Torch threads of each run; default: the plan's.")] = None,
    workers: Annotated[int, typer.Option("--workers", "-j", min=1, help="Threads that decode images.")] = 2,
    cache: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Keep prepared images here; default: CATIS_CACHE, ~/.cache/catis."),
    ] = None,
) -> None:
    """Run models x methods x r x data sets from a plan file, into one store; what is done is skipped.

    Example: catis sweep plans/table1.toml --dry-run --only 'deit3-b*'
    """
    console = Console()
    read = read_plan(plan)
    jobs = expand(read, limit=limit, only=only or ["*"], skip=skip or [])
    place, threads = store or read.store, threads or read.defaults.threads
    if dry_run:
        _show(preview(read.file, jobs, place), place, console)
        return
    gmacs, inputs = costs(read.file, jobs), look_for_inputs(jobs)
    if inputs.problems:
        raise PlanError(_missing(read.file, list(inputs.problems)))
    events = _Shown(console, jobs, [cost * (count or 0) for cost, count in zip(gmacs, inputs.images, strict=True)])
    kept = ImageCache(cache or default_cache())
    interrupted = False
    try:
        with events.bar:
            if ray is None:
                run_here(jobs, Store(place), events, threads=threads, cache=kept, workers=workers)
            else:
                from catis.sweep.ray_cluster import run_on_ray

                run_on_ray(jobs, Store(place), events, ray, threads=threads, cache=kept, workers=workers)
    except KeyboardInterrupt:
        interrupted = True
    _summary(events, len(jobs), place, interrupted, console)
    if interrupted or events.failures:
        raise typer.Exit(INTERRUPTED if interrupted else FAILED)


class _Shown(Events):
    """Shows a bar over all runs, weighed by their multiply-adds, and a line for each run that ends."""

    def __init__(self, console: Console, jobs: list[Job], work: list[float]) -> None:
        super().__init__()
        self._console, self._total = console, len(jobs)
        self._work = {job.label: amount for job, amount in zip(jobs, work, strict=True)}
        self._ended = self._left_out = 0.0
        self.bar = Progress(
            TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn(), TextColumn("left:"),
            TimeRemainingColumn(), console=console, transient=True, speed_estimate_period=600,
        )  # fmt: skip
        self._task = self.bar.add_task("", total=sum(work))

    def preparing(self, what: str) -> None:
        self.bar.update(self._task, description=f"opening {what}")

    def started(self, job: Job, worker: int) -> None:
        self.bar.update(self._task, description=f"{self._count()}/{self._total} {job.label}")

    def advanced(self, job: Job, done: int, total: int) -> None:
        self.bar.update(self._task, completed=self._ended + self._work[job.label] * done / total)

    def lost(self, job: Job, reason: str) -> None:
        self._line(f"[yellow]worker lost, again:[/yellow] {escape(job.label)} ({escape(reason)})")

    def finished(self, job: Job, record: Record) -> None:
        super().finished(job, record)
        self._end(job)
        same = "" if record.agreement is None else f", agreement {record.agreement:.1f}"
        self._line(
            f"{self._count()}/{self._total} {escape(job.label)}: top-1 {record.top1:.2f} (n={record.n_read}){same}, "
            f"{record.gmacs:.2f} GMACs, {record.environment['seconds']:.1f} s"
        )

    def found(self, job: Job) -> None:
        super().found(job)
        self._left_out += self._work[job.label]
        self.bar.update(self._task, total=sum(self._work.values()) - self._left_out)

    def failed(self, job: Job, error: str) -> None:
        super().failed(job, error)
        self._end(job)
        self._line(f"[red]failed:[/red] {escape(job.label)}: {escape(error)}")

    def _count(self) -> int:
        return len(self.records) + len(self.skipped) + len(self.failures)

    def _end(self, job: Job) -> None:
        self._ended += self._work[job.label]
        self.bar.update(self._task, completed=self._ended)

    def _line(self, text: str) -> None:
        self._console.print(text, highlight=False, soft_wrap=True)


def _summary(events: Events, total: int, store: Path, interrupted: bool, console: Console) -> None:
    say = console.print
    done, before, failed = len(events.records), len(events.skipped), len(events.failures)
    say(f"{done} runs done, {before} were done before, {failed} failed, of {total}", highlight=False)
    for job, error in events.failures:
        say(f"[red]failed:[/red] {escape(job.label)}: {escape(error)}", highlight=False, soft_wrap=True)
    if interrupted:
        say("stopped; what is done is kept, the same command goes on from here", highlight=False)
    say(f"catis results {escape(str(store))}", highlight=False, soft_wrap=True)


def _show(found: Preview, store: Path, console: Console) -> None:
    table = Table(title=f"{len(found.lines)} runs into {store}", title_justify="left")
    for name, side in (("run", "left"), ("images", "right"), ("GMACs", "right"), ("share", "right"), ("time", "right"),
                       ("state", "left")):  # fmt: skip
        table.add_column(name, justify=side, no_wrap=True)  # type: ignore[arg-type]
    for line in found.lines:
        images = "?" if line.images is None else str(line.images)
        table.add_row(
            escape(line.job.label), images, f"{line.gmacs:.2f}", f"{line.share:.1%}", _time(line.seconds), line.state
        )
    console.print(table)
    known = [line.seconds for line in found.lines if line.seconds is not None]
    unknown = len(found.lines) - len(known)
    rest = f", and {unknown} runs whose time is not known" if unknown else ""
    console.print(f"about {_time(sum(known))} to go{rest}", highlight=False)
    console.print("estimated from images x GMACs of a run and the rate of the plain model, timed here just now, with "
                  "random weights; reading images and choosing tokens come on top", highlight=False)  # fmt: skip
    for line_of_rate in found.how:
        console.print(f"  {escape(line_of_rate)}", highlight=False)
    for problem in found.problems:
        console.print(f"[red]missing:[/red] {escape(problem)}", highlight=False, soft_wrap=True)


def _missing(file: Path, problems: list[str]) -> str:
    more = f" (and {len(problems) - 10} more)" if len(problems) > 10 else ""
    return (
        f"{file}: nothing was run, because files are missing{more}; --skip PATTERN leaves runs out\n  "
        + "\n  ".join(problems[:10])
    )


def _time(seconds: float | None) -> str:
    if seconds is None:
        return "?"
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
