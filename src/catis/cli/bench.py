"""`catis bench`: times methods against vanilla on this machine, prints rows and reasons, writes CSV or JSON."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from rich.console import Console

from catis.cli import arguments as shared
from catis.cli.progress import progress_bar
from catis.core.schedule import Schedule
from catis.files import check_writable

if TYPE_CHECKING:
    from catis.bench import Protocol, Report

of_files = shared.group("Exported files")


def bench_command(
    model: shared.ModelName,
    method: Annotated[
        list[str] | None, typer.Option("--method", "-m", help="Method, or several with commas; all by default.")
    ] = None,
    r: Annotated[
        list[str] | None,
        typer.Option(
            "-r", metavar="R", help=f"{shared.AMOUNT} May be repeated; by default 4/5 of the patches over the depth."
        ),
    ] = None,
    budget: Annotated[
        list[float] | None, typer.Option("--budget", "-b", metavar="SHARE", help=f"{shared.BUDGET} May be repeated.")
    ] = None,
    recipe: Annotated[
        list[str] | None,
        shared.of_reduction(
            "--recipe", metavar="DIR", help="Recipe to time, without -m or beside it; may be repeated."
        ),
    ] = None,
    batch_size: Annotated[
        list[str] | None, typer.Option("--batch-size", metavar="N", help="Images per pass, or several: 1,8,64.")
    ] = None,
    preset: Annotated[
        str, typer.Option(help="quick; paper (batch 64, 50 warm-up, 200 timed); timm (batch 256, 10, 40).")
    ] = "quick",
    num_warm_iter: Annotated[int | None, shared.of_computing(min=0, metavar="N", help="Untimed passes first.")] = None,
    num_bench_iter: Annotated[int | None, shared.of_computing(min=1, metavar="N", help="Timed passes.")] = None,
    max_seconds: Annotated[
        float | None, shared.of_computing(min=0.0, metavar="S", help="Time limit per row; 0 for none.")
    ] = None,
    torchcompile: Annotated[bool, shared.of_computing("--torchcompile", help="Also rows under torch.compile.")] = False,
    eager: Annotated[bool, shared.of_computing(help="Rows without torch.compile.")] = True,
    runtime: Annotated[
        Literal["torch", "onnxruntime", "openvino"] | None,
        shared.of_computing(
            help="What runs the models: torch, or the others after export. A file is run by what it was made for."
        ),
    ] = None,
    vanilla: Annotated[
        list[Path] | None,
        of_files(
            "--vanilla", metavar="FILE", help="The vanilla model's file; may be repeated, such as float and int8."
        ),
    ] = None,
    beside: Annotated[
        list[Path] | None, of_files("--with", metavar="FILE", help="Further file to time with it; may be repeated.")
    ] = None,
    amp: Annotated[bool, shared.of_computing("--amp", help="Mixed precision.")] = False,
    amp_dtype: Annotated[str | None, shared.of_computing(help="Of --amp; float16 on CUDA, bfloat16 on CPU.")] = None,
    model_dtype: Annotated[str, shared.of_computing(help="Of the model: float32, bfloat16 or float16.")] = "float32",
    device: shared.Device = None,
    threads: shared.Threads = None,
    img_size: shared.ImageSize = None,
    model_kwargs: shared.ModelKwargs = None,
    data: Annotated[
        str | None, shared.of_images(metavar="DIR", help="Folder of images: is reading them the bottleneck?")
    ] = None,
    workers: Annotated[
        int | None, shared.of_images("--workers", "-j", min=1, metavar="N", help="Threads that read --data.")
    ] = None,
    causes: Annotated[bool, typer.Option(help="Time the parts too, and say why a row is slow.")] = True,
    seed: shared.Seed = 0,
    checkpoint: shared.Checkpoint = None,
    pretrained: shared.Pretrained = None,
    output: Annotated[
        Path | None,
        shared.output_option("File for the rows: .csv with timm's columns first, or .json.", "--results-file"),
    ] = None,
) -> None:
    """Time methods against vanilla, and say why when the saving does not become time.

    Random weights are as fast as trained ones, so none are fetched unless --pretrained is given. MODEL may be a file
    that `catis export` wrote (.onnx, .xml, .pt2): it is timed as it is, beside vanilla's.

    Example: catis bench vit_tiny_patch16_224 -m tome,catis -r 8 -b 0.5 --batch-size 1,8
    """
    if output is not None:
        check_writable(output, ".csv", ".json")
    protocol = _protocol(preset, batch_size, num_warm_iter, num_bench_iter, max_seconds)
    if Path(model).suffix in (".onnx", ".xml", ".pt2"):  # asked before anything heavy is imported
        of_models = {
            "--method": method, "-r": r, "--budget": budget, "--recipe": recipe, "--torchcompile": torchcompile,
            "--amp": amp, "--img-size": img_size, "--model-kwargs": model_kwargs, "--checkpoint": checkpoint,
            "--pretrained": pretrained, "--data": data,
        }  # fmt: skip
        _refuse(of_models, f"{model} is timed as it was exported")
        from catis.bench import bench_files

        paths = [Path(model), *(beside or ())]
        how: dict[str, Any] = {"runtime": runtime, "threads": threads, "seed": seed, "causes": causes}
        _show_timed(partial(bench_files, paths, protocol, vanilla=vanilla or (), **how), output)
        return
    _refuse({"--vanilla": vanilla, "--with": beside}, f"{model} is no exported file (.onnx, .xml, .pt2)")
    amounts = (*map(Schedule.from_text, r or ()), *map(Schedule.of_budget, budget or ())) or None

    from catis import models
    from catis.bench import Precision, Settings, bench_model
    from catis.recipes import load_recipe
    from catis.runs.spec import choose_device

    place = choose_device(device)
    if amp_dtype is not None and not amp:
        raise ValueError(f"--amp-dtype {amp_dtype} without --amp: it is the format of mixed precision")
    amp_kind = (amp_dtype or ("bfloat16" if place == "cpu" else "float16")) if amp else None
    settings = Settings(
        methods=_methods(method) if method or not recipe else (),
        amounts=amounts,
        protocol=protocol,
        compiled=(False,) * eager + (True,) * torchcompile,
        device=place,
        precision=Precision(model_dtype, amp_kind),
        threads=threads,
        seed=seed,
        causes=causes,
        recipes=tuple(load_recipe(source) for source in recipe or ()),
        runtime=runtime or "torch",
    )
    net = models.load_model(model, checkpoint, bool(pretrained), **shared.model_settings(model_kwargs, img_size))
    if checkpoint is None and not pretrained and not models.is_zoo_model(model) and not models.is_hf_model(model):
        note = f"[yellow]note:[/yellow] {model} has random weights, which are as fast as trained ones"
        Console(highlight=False).print(note)
    threads_reading = workers or os.cpu_count() or 1
    _show_timed(partial(bench_model, net, settings, name=model, data=data, workers=threads_reading), output)


def _refuse(options: dict[str, Any], why: str) -> None:
    for name, value in options.items():
        if value:
            raise ValueError(f"{name} was given, but {why}: leave it out")


def _show_timed(bench: Callable[..., Report], output: Path | None) -> None:
    """Run a benchmark under the bar, print its rows and write them where they are wanted."""
    from catis.bench.report import write_results
    from catis.cli.bench_tables import show

    console = Console(highlight=False)
    with progress_bar(console) as bar:
        task = bar.add_task("", total=1.0)
        report = bench(progress=lambda what, share: bar.update(task, description=what, completed=share))
    show(report, console)
    if output is not None:
        write_results(report, output)
        console.print(f"wrote {output}", markup=False)


def _methods(given: list[str] | None) -> tuple[str, ...]:
    from catis.registry import list_methods

    names = [name.strip() for text in given or [] for name in text.split(",")]
    unknown = [name for name in names if name not in list_methods()]
    if unknown:
        raise ValueError(f"--method {unknown[0]}: expected {', '.join(list_methods())}")
    return tuple(dict.fromkeys(names or list_methods()))


def _protocol(
    preset: str, batch_size: list[str] | None, warmup: int | None, rounds: int | None, max_seconds: float | None
) -> Protocol:
    """A preset, with what was given in place of its own."""
    from catis.bench import PRESETS

    if preset not in PRESETS:
        raise ValueError(f"--preset {preset}: expected one of {', '.join(PRESETS)}")
    given: dict[str, Any] = {"warmup": warmup, "rounds": rounds}
    try:
        given["batch_sizes"] = tuple(int(part) for text in batch_size or [] for part in text.split(",")) or None
    except ValueError as error:
        raise ValueError(f"--batch-size {','.join(batch_size or [])}: expected numbers, such as 1,8,64") from error
    protocol = replace(PRESETS[preset], **{name: value for name, value in given.items() if value is not None})
    return protocol if max_seconds is None else replace(protocol, max_seconds=max_seconds or None)
