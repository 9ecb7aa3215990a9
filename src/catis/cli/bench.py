"""`catis bench`: times methods against vanilla on this machine, prints rows and reasons, writes CSV or JSON."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import torch
import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn
from rich.table import Table
from torch import nn

from catis import models
from catis.bench import PRESETS, Precision, Protocol, Report, Row, Settings, bench_model
from catis.bench.report import check_results_file, write_results
from catis.cli.arguments import Checkpoint, Pretrained, parse_amount
from catis.cli.export import load_any
from catis.registry import list_methods

__all__ = ["bench_command"]


def bench_command(
    model: Annotated[str, typer.Argument(help="timm or zoo model name, or a directory that save_pretrained wrote.")],
    method: Annotated[
        list[str] | None, typer.Option("--method", "-m", help="Method, or several with commas; all by default.")
    ] = None,
    r: Annotated[
        list[str] | None,
        typer.Option("-r", metavar="R", help="Tokens per block, as elsewhere; may be repeated. [default: 4/5 N/L]"),
    ] = None,
    batch_size: Annotated[
        list[str] | None, typer.Option("--batch-size", "-b", metavar="N", help="Images per pass, or several: 1,8,64.")
    ] = None,
    preset: Annotated[
        str, typer.Option(help="quick; paper (batch 64, 50 warm-up, 200 timed); timm (batch 256, 10, 40).")
    ] = "quick",
    num_warm_iter: Annotated[int | None, typer.Option(min=0, help="Untimed passes first.")] = None,
    num_bench_iter: Annotated[int | None, typer.Option(min=1, help="Timed passes.")] = None,
    max_seconds: Annotated[float | None, typer.Option(min=0.0, help="Time limit per row; 0 for none.")] = None,
    torchcompile: Annotated[bool, typer.Option("--torchcompile", help="Also rows under torch.compile.")] = False,
    eager: Annotated[bool, typer.Option(help="Rows without torch.compile.")] = True,
    amp: Annotated[bool, typer.Option("--amp", help="Autocast.")] = False,
    amp_dtype: Annotated[str | None, typer.Option(help="Of --amp; float16 on CUDA, bfloat16 on CPU.")] = None,
    model_dtype: Annotated[str, typer.Option(help="float32, bfloat16 or float16.")] = "float32",
    device: Annotated[str | None, typer.Option(help="cpu, cuda, cuda:1; CUDA if there is one.")] = None,
    threads: Annotated[int | None, typer.Option(min=1, help="Threads of PyTorch on CPU.")] = None,
    img_size: Annotated[int | None, typer.Option(min=1, help="Side of the input; default: the model's own.")] = None,
    data: Annotated[Path | None, typer.Option(help="Folder of images: is reading them the bottleneck?")] = None,
    workers: Annotated[int | None, typer.Option("--workers", "-j", min=1, help="Threads that read --data.")] = None,
    causes: Annotated[bool, typer.Option(help="Time the parts too, and say why a row is slow.")] = True,
    seed: Annotated[int, typer.Option(min=0)] = 0,
    checkpoint: Checkpoint = None,
    pretrained: Pretrained = False,
    results_file: Annotated[Path | None, typer.Option(metavar="FILE", help="CSV (timm's columns) or JSON.")] = None,
) -> None:
    """Time methods against vanilla, and say why when the saving does not become time.

    For example:  catis bench vit_tiny_patch16_224 -m tome,catis -r 8 -r 13 -b 1,8
    """
    console = Console(highlight=False)
    if results_file is not None:
        check_results_file(results_file)
    place = device or ("cuda" if torch.cuda.is_available() else "cpu")
    amp_kind = (amp_dtype or ("bfloat16" if place == "cpu" else "float16")) if amp else None
    settings = Settings(
        methods=_methods(method),
        amounts=None if r is None else tuple(parse_amount(text) for text in r),
        protocol=_protocol(preset, batch_size, num_warm_iter, num_bench_iter, max_seconds),
        compiled=(False,) * eager + (True,) * torchcompile,
        device=place,
        precision=Precision(model_dtype, amp_kind),
        threads=threads,
        seed=seed,
        causes=causes,
    )
    net = _load(model, checkpoint, pretrained, img_size)
    if checkpoint is None and not pretrained and not models.is_zoo_model(model) and not Path(model).is_dir():
        console.print(f"[yellow]note:[/yellow] {model} has random weights, which are as fast as trained ones")
    with _bar() as bar:
        task = bar.add_task("", total=1.0)
        report = bench_model(
            net, settings, name=model, data=data, workers=workers or os.cpu_count() or 1,
            progress=lambda what, share: bar.update(task, description=what, completed=share),
        )  # fmt: skip
    show(report, console)
    if results_file is not None:
        write_results(report, results_file)
        console.print(f"wrote {results_file}", markup=False)


def _methods(given: list[str] | None) -> tuple[str, ...]:
    names = [name.strip() for text in given or [] for name in text.split(",")]
    unknown = [name for name in names if name not in list_methods()]
    if unknown:
        raise ValueError(f"--method {unknown[0]}: expected {', '.join(list_methods())}")
    return tuple(dict.fromkeys(names or list_methods()))


def _protocol(
    preset: str, batch_size: list[str] | None, warmup: int | None, rounds: int | None, max_seconds: float | None
) -> Protocol:
    """A preset, with what was given in place of its own."""
    if preset not in PRESETS:
        raise ValueError(f"--preset {preset}: expected one of {', '.join(PRESETS)}")
    given: dict[str, Any] = {"warmup": warmup, "rounds": rounds}
    try:
        given["batch_sizes"] = tuple(int(part) for text in batch_size or [] for part in text.split(",")) or None
    except ValueError as error:
        raise ValueError(f"--batch-size {','.join(batch_size or [])}: expected numbers, such as 1,8,64") from error
    found = replace(PRESETS[preset], **{name: value for name, value in given.items() if value is not None})
    return found if max_seconds is None else replace(found, max_seconds=max_seconds or None)


def _load(name: str, checkpoint: Path | None, pretrained: bool, img_size: int | None) -> nn.Module:
    settings = {} if img_size is None else {"img_size": img_size}
    if not Path(name).is_dir():
        return models.load_model(name, checkpoint, pretrained, **settings)
    if settings or checkpoint is not None or pretrained:
        raise ValueError(f"{name} is a saved model: --img-size, --checkpoint and --pretrained do not go with it")
    return load_any(name, None, random_weights=False)


def _bar() -> Progress:
    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeElapsedColumn())
    return Progress(*columns, console=Console(stderr=True), transient=True)


TIMES = (
    "batch", "method", "r", "im/s", "p50 ms", "p90", "p99", "n", "MAC ratio", "speed-up", "quartiles", "light",
    "efficiency", "MB",
)  # fmt: skip
LOST = ("batch", "method", "r", "lost ms", "products", "choosing", "of it map", "merging", "bias", "rest")


def show(report: Report, console: Console) -> None:
    """Print the rows, where their time went, what the columns mean, and the reasons."""
    rig, first = report.rig, report.rows[0]
    start = f"{first.model}, {first.infer_img_size} px, {rig['device']}, {rig['threads']} threads"
    console.print(f"{start}, {rig['precision']}, torch {rig['torch']}", markup=False)
    console.print(_table(TIMES, report.rows, _times))
    console.print("speed-up: median over rounds of vanilla's time over the row's; efficiency: speed-up / MAC ratio")
    fewest = min((row.rounds for row in report.rows if row.rounds), default=0)
    if 0 < fewest < 100:
        console.print(f"p99 of {fewest} passes is nearly the slowest of them")
    if any(row.light_speedup is not None for row in report.rows):
        console.print("light: speed-up of the matrix products alone on the same shapes, the most anyone could reach")
        console.print("MB: most that one pass allocates at once, without weights and input")
        console.print(_table(LOST, [row for row in report.rows if row.lost_ms is not None], _lost))
        console.print("lost: time beyond vanilla's / MAC ratio; products, choosing, merging, bias, rest add up to it")
    _reasons(report, console)


def _table(columns: Sequence[str], rows: Sequence[Row], cells: Callable[[Row], list[str]]) -> Table:
    table = Table()
    for column in columns:
        table.add_column(column, justify="left" if column == "method" else "right", no_wrap=True)
    for before, row in zip((None, *rows), rows, strict=False):
        if before is not None and _case(before) != _case(row):
            table.add_section()
        name = f"{row.method} (compiled)" if row.torchcompile else row.method
        table.add_row(str(row.infer_batch_size), name, row.r, *cells(row))
    return table


def _case(row: Row) -> tuple[bool, int]:
    return row.torchcompile, row.infer_batch_size


def _times(row: Row) -> list[str]:
    if row.error:
        return [f"[red]{escape(row.error)}[/red]"]
    quartiles = "-" if row.speedup_low is None else f"{row.speedup_low:.2f}-{row.speedup_high:.2f}"
    efficiency = f"[bold red]{row.efficiency:.2f} ![/bold red]" if row.suspicious else _number(row.efficiency, 2)
    return [
        _number(row.infer_samples_per_sec, 1), _number(row.p50_ms, 1), _number(row.p90_ms, 1), _number(row.p99_ms, 1),
        str(row.rounds), _number(row.gmacs_ratio, 2), _number(row.speedup, 2), quartiles,
        _number(row.light_speedup, 2), efficiency, _number(row.peak_memory_mb, 1),
    ]  # fmt: skip


def _lost(row: Row) -> list[str]:
    parts = (row.products_ms, row.choosing_ms, row.attention_map_ms, row.merging_ms, row.bias_ms, row.rest_ms)
    return [_number(value, 1) for value in (row.lost_ms, *parts)]


def _number(value: float | None, digits: int) -> str:
    return "-" if value is None else f"{value:.{digits}f}"


def _reasons(report: Report, console: Console) -> None:
    """Each reason once, with the rows it holds for."""
    found: dict[tuple[tuple[bool, int], str], list[str]] = {}
    for row in report.rows:
        for reason in row.reasons:
            found.setdefault((_case(row), reason), []).append(f"{row.method} r={row.r}")
    for ((compiled, batch), reason), names in found.items():
        where = f"batch {batch}{' compiled' if compiled else ''}"
        console.print(f"[bold]{where}, {', '.join(names)}:[/bold] {escape(reason)}")
