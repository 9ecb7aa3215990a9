"""`catis eval`: accuracy of a model, vanilla and reduced, on labelled images: a sweep of one model and one method."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from rich.console import Console

from catis.cli import arguments as shared
from catis.core.schedule import Schedule
from catis.files import check_folder, check_writable, write_whole
from catis.report.table import Table

if TYPE_CHECKING:
    from catis.runs.record import Record
    from catis.runs.spec import Precision
    from catis.sweep.entries import MethodEntry

Three = tuple[float, float, float]


def eval_command(
    model: shared.ModelName,
    data: Annotated[
        list[str],
        typer.Option(
            "--data",
            metavar="NAME=DIR",
            help="imagenet=DIR, also imagenet-a, -r, -sketch, -c; any NAME=DIR of class folders; NAME@fog:3=DIR or "
            "NAME@all=DIR corrupted on the fly; zoo-clean and other embedded views. May be repeated.",
        ),
    ],
    method: Annotated[
        str | None,
        typer.Option("--method", "-m", metavar="NAME", help="Method; without one the vanilla model runs alone."),
    ] = None,
    r: shared.AmountOrNone = None,
    budget: shared.Budget = None,
    option: shared.Options = None,
    recipe: shared.RecipeSource = None,
    prop_attn: Annotated[bool, shared.of_reduction(help="Attention counts the sizes of merged tokens.")] = True,
    vanilla: Annotated[bool, shared.of_reduction(help="Run the vanilla model too, for the agreement.")] = True,
    limit: shared.Limit = None,
    class_map: Annotated[
        Path | None,
        shared.of_images(metavar="FILE", help="Text file with the class folders in the order of the classes."),
    ] = None,
    checkpoint: shared.Checkpoint = None,
    pretrained: shared.Pretrained = None,
    img_size: shared.ImageSize = None,
    model_kwargs: shared.ModelKwargs = None,
    crop_pct: shared.CropShare = None,
    mean: Annotated[Three | None, shared.of_model(help="Mean of the channels; by default the model's.")] = None,
    std: Annotated[Three | None, shared.of_model(help="Deviation of the channels; by default the model's.")] = None,
    interpolation: Annotated[str | None, shared.of_model(help="Such as bicubic; by default the model's.")] = None,
    batch_size: shared.BatchSize = 64,
    retry: Annotated[bool, shared.of_computing(help="Take smaller batches when memory runs out.")] = True,
    device: shared.Device = None,
    amp: Annotated[bool, shared.of_computing("--amp", help="Mixed precision.")] = False,
    amp_dtype: Annotated[Literal["float16", "bfloat16"], shared.of_computing(help="Of mixed precision.")] = "float16",
    model_dtype: Annotated[
        Literal["float32", "float16", "bfloat16"], shared.of_computing(help="Of the model, without --amp.")
    ] = "float32",
    torchcompile: Annotated[
        bool, shared.of_computing("--torchcompile", help="Compile the model with torch.compile.")
    ] = False,
    workers: shared.Workers = 2,
    seed: shared.Seed = 0,
    on_error: Annotated[
        Literal["skip", "raise"], shared.of_images(help="Leave out images that cannot be read, or stop at the first.")
    ] = "skip",
    store: shared.Store = None,
    force: Annotated[bool, shared.of_results("--force", help="Do runs again that are in the store.")] = False,
    output: Annotated[
        Path | None, shared.output_option("File for the results, with timm's columns first.", "--results-file")
    ] = None,
    results_format: Annotated[Literal["csv", "json"], shared.of_results(help="Format of the --output file.")] = "csv",
    cache: shared.Cache = None,
    no_cache: Annotated[bool, shared.of_computing("--no-cache", help="Keep no prepared images on the disk.")] = False,
    cache_limit: shared.CacheLimit = 20.0,
) -> None:
    """Measure accuracy on labelled images, of the vanilla model and of the reduced one.

    Top-1 and top-5 with their 95 % intervals, GMACs, tokens left, agreement with the vanilla model.

    Example: catis eval deit_tiny_patch16_224 -m catis -r 13 --data imagenet=/data/val --data imagenet-a=/data/a
    """
    from catis import runs
    from catis.cli.sweep_display import ShownEvents
    from catis.evaluate.cache import ImageCache, default_cache
    from catis.runs.data_names import parse_data
    from catis.runs.spec import choose_device
    from catis.sweep.entries import ModelEntry, Plan, RunDefaults
    from catis.sweep.jobs import expand
    from catis.sweep.local import run_here

    if output is not None:
        check_writable(output)
    if store is not None:
        check_folder(store)
    opened = None if store is None else runs.Store(store)  # before anything is computed: it may need an extra
    prepared = (img_size, crop_pct, mean, std, interpolation)
    spec = shared.model_spec(model, checkpoint, pretrained, model_kwargs, *prepared)
    mapped = None if class_map is None else str(class_map)
    sets = [spec for text in data for spec in parse_data(text, limit=limit, seed=seed, class_map=mapped)]
    precision = _precision(amp, amp_dtype, model_dtype)
    usual = RunDefaults(batch_size, precision, choose_device(device), torchcompile, seed, on_error)
    entries = _methods(method, shared.given_amount(r, budget), prop_attn, shared.parse_options(option), recipe)
    plan = Plan(Path("catis eval"), Path(), (ModelEntry(model, spec),), entries, (), tuple(sets), defaults=usual)
    jobs = [job for job in expand(plan) if vanilla or not entries or not job.is_vanilla]
    kept = None if no_cache else ImageCache(cache or default_cache(), cache_limit)
    console = Console(highlight=False, soft_wrap=True)
    events = ShownEvents(console, jobs, [1.0] * len(jobs), strict=True)
    complete = events.run(run_here, opened, force=force, retry=retry, cache=kept, workers=workers)
    records = events.all_records(opened)
    for _, name in events.skipped:
        console.print(f"in the store already: {name}", markup=False)
    show(records, model, console)
    if output is not None and records:
        write_results(output, records, results_format)
        console.print(f"wrote {output}", markup=False)
    if kept is not None and kept.folder.is_dir():
        used = kept.bytes_used() / 1e9
        line = f"prepared images: {used:.2f} of at most {kept.limit:g} GB in {kept.folder}, safe to delete"
        console.print(line, markup=False)
    if not complete:
        console.print("[yellow]interrupted:[/yellow] the run in flight left no record")
        raise typer.Exit(shared.INTERRUPTED)


def _methods(
    method: str | None, schedule: Schedule | None, prop_attn: bool, options: dict[str, Any], recipe: str | None
) -> tuple[MethodEntry, ...]:
    """The one method of the plan, or a recipe; none for the vanilla model alone."""
    from catis.api import wanted_recipe
    from catis.sweep.entries import MethodEntry

    if method is None and recipe is None:
        if (schedule is not None and not schedule.is_vanilla) or options:
            raise ValueError(f"-r {schedule}, --option {options}: say for which method with --method NAME")
        return ()
    wanted = wanted_recipe(method, r=schedule, prop_attn=None if prop_attn else False, recipe=recipe, **options)
    if recipe is not None:
        return (MethodEntry(recipe, wanted.reduction, from_recipe=True, correction=wanted.correction),)
    return (MethodEntry(wanted.reduction.method.name, wanted.reduction, (wanted.reduction.schedule,)),)


def _precision(amp: bool, amp_dtype: str, model_dtype: Any) -> Precision:
    if not amp:
        return model_dtype  # type: ignore[no-any-return]
    if model_dtype != "float32":
        raise ValueError(f"--amp with --model-dtype {model_dtype}: mixed precision needs a float32 model; drop one")
    return "amp-bfloat16" if amp_dtype == "bfloat16" else "amp"


def show(records: Sequence[Record], model: str, console: Console) -> None:
    """Print the table, and the means over data sets where they are defined."""
    from catis.evaluate.metrics import mean_corrupted_accuracy, shift_average

    columns = ["data", "method", "top-1 (95 %)", "top-5", "n", "GMACs", "tokens", "agree"]
    Table(columns, [_cells(record) for record in records], title=model).print(console)
    for method in dict.fromkeys((record.method_title, record.schedule) for record in records):
        same = [record for record in records if (record.method_title, record.schedule) == method]
        word = " ".join(filter(None, method))
        average = shift_average(same)
        if average is not None:
            console.print(f"Shift avg (A, R, Sketch), {word}: {average:.2f}")
        for data, (mean, count) in mean_corrupted_accuracy(same).items():
            console.print(f"mCA, {data}, {word}: {mean:.2f} over {count} of 75 corrupted sets")


def _cells(record: Record) -> list[Any]:
    n = record.n_read if record.n_broken == 0 else f"{record.n_read} of {record.n_total}"
    top1 = f"{record.top1:5.2f} ({record.top1_low:.1f}-{record.top1_high:.1f})"
    same = None if record.agreement is None else round(record.agreement, 2)
    method = f"{record.method_title} {record.schedule}".strip()
    gmacs = float(f"{record.gmacs:.3g}")
    return [record.data_title, method, top1, round(record.top5, 2), n, gmacs, record.tokens[-1], same]


def write_results(path: Path, records: Sequence[Record], form: str) -> None:
    """A file as timm's validation writes it, with more columns after timm's."""
    from catis.runs.query import timm_table
    from catis.runs.record import timm_row

    rows = [timm_row(record) for record in records]
    write_whole(path, (json.dumps(rows, indent=4) + "\n" if form == "json" else timm_table(records).csv()).encode())
