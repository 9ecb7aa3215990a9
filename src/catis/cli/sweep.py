"""`catis sweep`: reads a plan, runs what is not done yet, here or on a Ray cluster, and says at the end what failed."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from catis.cli.arguments import INTERRUPTED, Cache, CacheLimit, Limit, Store, Threads, Workers

FAILED = 1
Patterns = list[str] | None


def sweep_command(
    plan: Annotated[Path, typer.Argument(metavar="PLAN.toml", help="What to run; docs/sweeps.md has the format.")],
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print runs, GMACs and an estimate of time; no more.")
    ] = False,
    store: Store = None,
    limit: Limit = None,
    only: Annotated[
        Patterns, typer.Option(metavar="PATTERN", help="Only runs like 'vit-s*' or '*catis r=13*'.")
    ] = None,
    skip: Annotated[Patterns, typer.Option(metavar="PATTERN", help="Not these; both may be repeated.")] = None,
    ray: Annotated[
        str | None, typer.Option(metavar="ADDRESS", help="Ray cluster: an address, 'auto', or 'local' to start one.")
    ] = None,
    threads: Threads = None,
    workers: Workers = 2,
    cache: Cache = None,
    cache_limit: CacheLimit = 20.0,
) -> None:
    """Run models x methods x r x data sets from a plan file, into one store; what is done is skipped.

    --store, --limit and --threads replace what the plan says.

    Example: catis sweep plans/table1.toml --dry-run --only 'deit3-b*'
    """
    if not plan.is_file():
        raise ValueError(f"{plan}: no such file; expected a plan, as docs/sweeps.md describes it")

    from catis import runs
    from catis.cli.sweep_display import ShownEvents, show_preview, show_summary
    from catis.evaluate.cache import ImageCache, default_cache
    from catis.files import check_folder
    from catis.sweep.costs import costs
    from catis.sweep.jobs import expand
    from catis.sweep.local import run_here, threads_set
    from catis.sweep.plan import read_plan
    from catis.sweep.preview import look_for_inputs, preview
    from catis.sweep.ray_cluster import run_on_ray
    from catis.sweep.table import PlanError

    console = Console(highlight=False, soft_wrap=True)
    read = read_plan(plan)
    jobs = expand(read, limit=limit, only=only or ["*"], skip=skip or [])
    place, threads = store or read.store, threads or read.defaults.threads
    if dry_run:
        with threads_set(threads):
            show_preview(preview(read.file, jobs, place), place, console)
        return
    check_folder(place)
    gmacs, inputs = costs(read.file, jobs), look_for_inputs(jobs)
    if inputs.problems:
        raise PlanError(_missing(read.file, list(inputs.problems)))
    events = ShownEvents(console, jobs, [cost * (n or 0) for cost, n in zip(gmacs, inputs.images, strict=True)])
    kept = ImageCache(cache or default_cache(), cache_limit)
    runner, address = (run_here, []) if ray is None else (run_on_ray, [ray])
    complete = events.run(runner, runs.Store(place), *address, threads=threads, cache=kept, workers=workers)
    show_summary(events, len(jobs), place, not complete, console)
    if not complete or events.failures:
        raise typer.Exit(FAILED if complete else INTERRUPTED)


def _missing(file: Path, problems: list[str]) -> str:
    shown = [*problems[:10], *([f"and {len(problems) - 10} more"] if len(problems) > 10 else [])]
    return "\n  ".join([f"{file}: files are missing, so nothing was run; --skip PATTERN leaves runs out", *shown])
