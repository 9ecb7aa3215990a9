"""`catis sweep`: reads a plan, runs what is not done yet, here or on a Ray cluster, and says at the end what failed."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from catis.cli.sweep_display import ShownEvents, show_preview, show_summary
from catis.evaluate.cache import ImageCache, default_cache
from catis.runs.store import Store
from catis.sweep.checks import look_for_inputs
from catis.sweep.costs import costs
from catis.sweep.jobs import expand
from catis.sweep.local import run_here, threads_set
from catis.sweep.plan import read_plan
from catis.sweep.preview import preview
from catis.sweep.ray_cluster import run_on_ray
from catis.sweep.table import PlanError

__all__ = ["sweep_command"]

FAILED, INTERRUPTED = 1, 130
Patterns = list[str] | None


def sweep_command(
    plan: Annotated[Path, typer.Argument(metavar="PLAN.toml", help="what to run; docs/sweeps.md has the format")],
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="print runs, GMACs and an estimate of time; no more")
    ] = False,
    store: Annotated[Path | None, typer.Option(metavar="DIR", help="results store, in place of the plan's")] = None,
    limit: Annotated[
        int | None, typer.Option("--limit", "-n", min=1, help="at most so many images of each set")
    ] = None,
    only: Annotated[Patterns, typer.Option(metavar="PATTERN", help="only runs like 'vit-s*' or '*catis r=13*'")] = None,
    skip: Annotated[Patterns, typer.Option(metavar="PATTERN", help="not these; both may be repeated")] = None,
    ray: Annotated[
        str | None, typer.Option(metavar="ADDRESS", help="Ray cluster: an address, 'auto', or 'local' to start one")
    ] = None,
    threads: Annotated[int | None, typer.Option(min=1, help="torch threads of each run; default: the plan's")] = None,
    workers: Annotated[int, typer.Option("--workers", "-j", min=1, help="threads that decode images")] = 2,
    cache: Annotated[Path | None, typer.Option(metavar="DIR", help="prepared images; default: $CATIS_CACHE")] = None,
    cache_limit: Annotated[float, typer.Option(min=0.0, metavar="GB", help="most that the cache may take")] = 20.0,
) -> None:
    """Run models x methods x r x data sets from a plan file, into one store; what is done is skipped.

    Example: catis sweep plans/table1.toml --dry-run --only 'deit3-b*'
    """
    console = Console()
    read = read_plan(plan)
    jobs = expand(read, limit=limit, only=only or ["*"], skip=skip or [])
    place, threads = store or read.store, threads or read.defaults.threads
    if dry_run:
        with threads_set(threads):
            show_preview(preview(read.file, jobs, place), place, console)
        return
    gmacs, inputs = costs(read.file, jobs), look_for_inputs(jobs)
    if inputs.problems:
        raise PlanError(_missing(read.file, list(inputs.problems)))
    events = ShownEvents(console, jobs, [cost * (n or 0) for cost, n in zip(gmacs, inputs.images, strict=True)])
    kept = ImageCache(cache or default_cache(), cache_limit)
    opened, interrupted = Store(place), False
    try:
        with events.bar:
            if ray is None:
                run_here(jobs, opened, events, threads=threads, cache=kept, workers=workers)
            else:
                run_on_ray(jobs, opened, events, ray, threads=threads, cache=kept, workers=workers)
    except KeyboardInterrupt:
        interrupted = True
    show_summary(events, len(jobs), place, interrupted, console)
    if interrupted or events.failures:
        raise typer.Exit(INTERRUPTED if interrupted else FAILED)


def _missing(file: Path, problems: list[str]) -> str:
    shown = [*problems[:10], *([f"and {len(problems) - 10} more"] if len(problems) > 10 else [])]
    return "\n  ".join([f"{file}: files are missing, so nothing was run; --skip PATTERN leaves runs out", *shown])
