"""`catis eval`: accuracy of a model, plain and reduced, on labelled images; tables, timm's CSV, and a results store."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import torch
import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from catis.cli.arguments import Checkpoint, Options, parse_amount, parse_options
from catis.cli.tables import as_csv, build_table, print_table
from catis.evaluate.cache import ImageCache, default_cache
from catis.evaluate.metrics import mean_corrupted_accuracy, shift_average
from catis.evaluate.suite import Finished, evaluate_suite
from catis.models import is_zoo_model
from catis.registry import list_methods
from catis.runs.data_names import parse_data
from catis.runs.record import Record, timm_row
from catis.runs.spec import DataSpec, ModelSpec, Precision, RunSpec
from catis.runs.store import Store

__all__ = ["eval_command"]

Three = tuple[float, float, float]
SHOWN = 10
"""Broken images that are named on the screen; the record has all."""


def eval_command(
    model: Annotated[str, typer.Argument(help="timm or zoo model name, or a folder that save_pretrained wrote")],
    data: Annotated[
        list[str],
        typer.Option(
            "--data",
            metavar="NAME=DIR",
            help="imagenet=DIR, also imagenet-a, -r, -sketch, -c; any NAME=DIR of class folders; NAME@fog:3=DIR or "
            "NAME@all=DIR corrupted on the fly; zoo-clean and other embedded views. May be repeated.",
        ),
    ],
    method: Annotated[str | None, typer.Option("--method", "-m", help="method; none: the plain model only")] = None,
    r: Annotated[str | None, typer.Option("-r", metavar="R", help="tokens per block: 13, 0.1, 16,12,8 or 8:-1")] = None,
    option: Options = None,
    prop_attn: Annotated[bool, typer.Option(help="attention counts the sizes of merged tokens")] = True,
    vanilla: Annotated[bool, typer.Option(help="run the plain model too, for the agreement")] = True,
    limit: Annotated[int | None, typer.Option("--limit", "-n", min=1, help="images of each set, spread evenly")] = None,
    class_map: Annotated[Path | None, typer.Option(help="text file: class folders in the order of classes")] = None,
    checkpoint: Checkpoint = None,
    pretrained: Annotated[
        bool | None, typer.Option(help="timm's weights from the hub; default: yes, without a checkpoint")
    ] = None,
    img_size: Annotated[int | None, typer.Option(min=1, help="side of the input; default: the model's")] = None,
    crop_pct: Annotated[float | None, typer.Option(min=0.01, max=1.0, help="centre crop; default: the model's")] = None,
    mean: Annotated[Three | None, typer.Option(help="of the channels; default: the model's")] = None,
    std: Annotated[Three | None, typer.Option(help="of the channels; default: the model's")] = None,
    interpolation: Annotated[str | None, typer.Option(help="bicubic, bilinear, ...; default: the model's")] = None,
    batch_size: Annotated[int, typer.Option("--batch-size", "-b", min=1)] = 64,
    retry: Annotated[bool, typer.Option(help="smaller batches when memory runs out")] = True,
    device: Annotated[str | None, typer.Option(help="cpu, cuda, cuda:1, ...; default: cuda if there is one")] = None,
    amp: Annotated[bool, typer.Option("--amp", help="mixed precision")] = False,
    amp_dtype: Annotated[Literal["float16", "bfloat16"], typer.Option(help="of mixed precision")] = "float16",
    model_dtype: Annotated[
        Literal["float32", "float16", "bfloat16"], typer.Option(help="of the model, without --amp")
    ] = "float32",
    torchcompile: Annotated[bool, typer.Option("--torchcompile", help="torch.compile the model")] = False,
    workers: Annotated[int, typer.Option("--workers", "-j", min=1, help="threads that decode images")] = 2,
    seed: Annotated[int, typer.Option(min=0, help="of corruptions, and of random weights")] = 0,
    on_error: Annotated[Literal["skip", "raise"], typer.Option(help="images that cannot be read")] = "skip",
    store: Annotated[Path | None, typer.Option(metavar="DIR", help="results store: records and predictions")] = None,
    force: Annotated[bool, typer.Option("--force", help="do runs again that are in the store")] = False,
    results_file: Annotated[Path | None, typer.Option(metavar="FILE", help="file with timm's columns")] = None,
    results_format: Annotated[Literal["csv", "json"], typer.Option(help="of that file")] = "csv",
    cache: Annotated[Path | None, typer.Option(metavar="DIR", help="prepared images; default: $CATIS_CACHE")] = None,
    no_cache: Annotated[bool, typer.Option("--no-cache", help="decode images every time")] = False,
    cache_limit: Annotated[float, typer.Option(min=0.0, metavar="GB", help="most that the cache may take")] = 20.0,
) -> None:
    """Measure accuracy on labelled images, of the plain model and of the reduced one.

    Top-1 and top-5 with their 95 % intervals, GMACs, tokens left, agreement with the plain model.

    Example: catis eval deit_tiny_patch16_224 -m catis -r 13 --data imagenet=/data/val --data imagenet-a=/data/a
    """
    console = Console()
    folder = None if store is None else Store(store)  # before anything is computed: it may need an extra
    precision = _precision(amp, amp_dtype, model_dtype)
    wanted = ModelSpec(
        model, None if checkpoint is None else str(checkpoint), _fetch(model, checkpoint, pretrained),
        img_size=img_size, crop_pct=crop_pct, mean=mean, std=std, interpolation=interpolation,
    )  # fmt: skip
    if method is not None and method not in list_methods():
        raise ValueError(f"method={method!r}: expected one of {', '.join(list_methods())}")
    chosen = device or ("cuda" if torch.cuda.is_available() else "cpu")
    mapped = None if class_map is None else str(class_map)
    sets = [spec for text in data for spec in parse_data(text, limit=limit, seed=seed, class_map=mapped)]
    specs = [
        spec
        for one in sets
        for spec in _runs(
            RunSpec(
                wanted, one, method, None if r is None else parse_amount(r), parse_options(option), prop_attn,
                batch_size, precision, chosen, torchcompile, seed, on_error,
            ),
            vanilla,
        )
    ]  # fmt: skip
    kept = None if no_cache else ImageCache(cache or default_cache(), cache_limit)
    finished, complete = _run(specs, console, store=folder, force=force, workers=workers, cache=kept, retry=retry)
    show([done.record for done in finished], model, console)
    if results_file is not None and finished:
        write_results(results_file, [timm_row(done.record) for done in finished], results_format)
        console.print(f"wrote {results_file}", highlight=False, soft_wrap=True)
    if kept is not None and kept.folder.is_dir():
        console.print(_cache_line(kept), highlight=False, soft_wrap=True)
    if not complete:
        console.print("[yellow]interrupted:[/yellow] the run in flight left no record", highlight=False)
        raise typer.Exit(130)


def _runs(spec: RunSpec, vanilla: bool) -> list[RunSpec]:
    return [spec] if spec.method is None or not vanilla else [spec.vanilla, spec]


def _precision(amp: bool, amp_dtype: str, model_dtype: Any) -> Precision:
    if not amp:
        return model_dtype  # type: ignore[no-any-return]
    if model_dtype != "float32":
        raise ValueError(f"--amp with --model-dtype {model_dtype}: mixed precision needs a float32 model; drop one")
    return "amp-bfloat16" if amp_dtype == "bfloat16" else "amp"


def _fetch(model: str, checkpoint: Path | None, pretrained: bool | None) -> bool:
    """As timm's validation does: without a checkpoint the weights are timm's own."""
    local = checkpoint is not None or is_zoo_model(model) or Path(model).is_dir()
    return not local if pretrained is None else pretrained


def _run(specs: Sequence[RunSpec], console: Console, **settings: Any) -> tuple[list[Finished], bool]:
    """Do the runs under a progress bar; on Ctrl-C what was finished until then."""
    finished: list[Finished] = []
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console, transient=True) as bar:
        whole, part = bar.add_task("runs", total=len(specs)), bar.add_task("images", total=None)

        def progress(spec: RunSpec, done: int, total: int) -> None:
            bar.update(part, description=f"{spec.data.title} {spec.method or 'vanilla'}", completed=done, total=total)

        try:
            for done in evaluate_suite(specs, progress=progress, **settings):
                finished.append(done)
                bar.advance(whole)
                _tell(done, bar.console)
        except KeyboardInterrupt:
            return finished, False
    return finished, True


def _tell(done: Finished, console: Console) -> None:
    """What the user must hear of a run besides its row in the table."""
    if done.skipped:
        console.print(f"in the store already: {done.record.name}", highlight=False, soft_wrap=True)
    for note in done.notes:
        console.print(f"[yellow]note:[/yellow] {escape(note)}", highlight=False, soft_wrap=True)
    for name, reason in done.record.broken[:SHOWN]:
        console.print(f"[yellow]not read:[/yellow] {escape(f'{name}: {reason}')}", highlight=False, soft_wrap=True)
    if done.record.n_broken > SHOWN:
        console.print(f"... {done.record.n_broken} in all, each named in the record", highlight=False)


def show(records: Sequence[Record], model: str, console: Console) -> None:
    """Print the table, and the means over data sets where they are defined."""
    columns = ["data", "method", "top-1 (95 %)", "top-5", "n", "GMACs", "tokens", "agree"]
    print_table(console, build_table(columns, [_cells(record) for record in records], title=model))
    for method in dict.fromkeys((record.method, record.schedule) for record in records):
        same = [record for record in records if (record.method, record.schedule) == method]
        word = " ".join(filter(None, method))
        average = shift_average(same)
        if average is not None:
            console.print(f"Shift avg (A, R, Sketch), {word}: {average:.2f}", highlight=False)
        for data, (mean, count) in mean_corrupted_accuracy(same).items():
            console.print(f"mCA, {data}, {word}: {mean:.2f} over {count} of 75 corrupted sets", highlight=False)


def _cells(record: Record) -> list[Any]:
    data = DataSpec(record.data, corruption=record.corruption, severity=record.severity).title
    n = record.n_read if record.n_broken == 0 else f"{record.n_read} of {record.n_total}"
    top1 = f"{record.top1:5.2f} ({record.top1_low:.1f}-{record.top1_high:.1f})"
    same = None if record.agreement is None else round(record.agreement, 2)
    method = f"{record.method} {record.schedule}".strip()
    return [data, method, top1, round(record.top5, 2), n, float(f"{record.gmacs:.3g}"), record.tokens[-1], same]


def _cache_line(cache: ImageCache) -> str:
    used = cache.bytes_used() / 1e9
    return f"prepared images: {used:.2f} of at most {cache.limit:g} GB in {cache.folder}, safe to delete"


def write_results(path: Path, rows: Sequence[dict[str, Any]], form: str) -> None:
    """A file as timm's validation writes it, with more columns after timm's."""
    if form == "json":
        path.write_text(json.dumps(list(rows), indent=4) + "\n", encoding="utf-8")
        return
    path.write_text(as_csv(list(rows[0]), [list(row.values()) for row in rows]), encoding="utf-8")
