"""`catis bench`: times methods against vanilla on this machine, prints rows and reasons, writes CSV or JSON."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import torch
import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

from catis import models
from catis.bench import PRESETS, Precision, Protocol, Settings, bench_model
from catis.bench.report import check_results_file, write_results
from catis.cli.arguments import Checkpoint, Pretrained, parse_amount
from catis.cli.bench_tables import show
from catis.models import is_hf_model
from catis.registry import list_methods

__all__ = ["bench_command"]


def bench_command(
    model: Annotated[str, typer.Argument(help="timm, zoo or transformers model.")],
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
    net = models.load_model(model, checkpoint, pretrained, **({} if img_size is None else {"img_size": img_size}))
    if checkpoint is None and not pretrained and not models.is_zoo_model(model) and not is_hf_model(model):
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


def _bar() -> Progress:
    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeElapsedColumn())
    return Progress(*columns, console=Console(stderr=True), transient=True)
