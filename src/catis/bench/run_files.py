"""Times exported files against vanilla's, in turns, as models are timed, and asks the runtime where the time went."""

from __future__ import annotations

import platform
import tempfile
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch

from catis import __version__, models
from catis.bench.cases import Tell
from catis.bench.files import ExportedFile, describe_runtime, load_file, noise, read_file, runtime_for
from catis.bench.inside import seconds_of_products
from catis.bench.report import Report
from catis.bench.rows import Facts, Measured, rows_of
from catis.bench.settings import Protocol, Runtime
from catis.bench.timing import time_rounds
from catis.bench.variants import VANILLA
from catis.export.check import Runner
from catis.export.contract import write_contract
from catis.export.onnx_file import convert
from catis.export.report import ExportReport


def bench_files(
    files: Sequence[str | Path],
    protocol: Protocol,
    *,
    vanilla: Sequence[str | Path] = (),
    runtime: Runtime | None = None,
    threads: int | None = None,
    seed: int = 0,
    causes: bool = True,
    progress: Tell | None = None,
) -> Report:
    """Time files that `catis export` wrote against vanilla's.

    Args:
        vanilla: Files of the vanilla model, of each number format where there are several. Where none is given, the
            model that the JSON beside the first file names is exported with random weights.
        runtime: What runs them; by default the one that the first file's ending names.
        threads: Threads; by default PyTorch's.
        causes: Ask the runtime how long the products take, for the reasons.

    Raises:
        ValueError: A file is not there, is not run by the runtime, or has another vanilla model than the others.
    """
    tell = progress or (lambda what, share: None)
    chosen, threads = runtime_for(Path(files[0]), runtime), threads or torch.get_num_threads()
    with tempfile.TemporaryDirectory(prefix="catis-bench-") as folder:
        wanted = [read_file(Path(path)) for path in (*vanilla, *files)]
        if not any(file.variant == VANILLA for file in wanted):
            tell(f"exporting vanilla {wanted[0].model}", 0.0)
            wanted.insert(0, _exported_vanilla(wanted[0], Path(folder)))
        _check_alike(wanted, chosen)
        wanted.sort(key=lambda file: file.variant != VANILLA)
        batches = _batches(wanted, protocol)
        measured: list[Measured] = []
        for number, batch in enumerate(batches):
            tell(f"batch {batch}", number / len(batches))
            runners = {file: load_file(file.path, chosen, threads, batch) for file in wanted}
            times = _times(runners, batch, protocol, threads, seed)
            inside = _products(runners, chosen, batch, threads, seed) if causes else {}
            measured += [_measured(file, batch, times[file], inside.get(file)) for file in wanted]
    first = wanted[0]
    facts = Facts(first.model or first.path.stem, int(first.shape[-1] or 0), first.parameters, first.vanilla_macs)
    return Report(tuple(rows_of(measured, facts)), _rig(chosen, threads, protocol, seed))


def _exported_vanilla(like: ExportedFile, folder: Path) -> ExportedFile:
    """The vanilla model that a file's JSON names, exported with random weights, which are as fast as trained ones."""
    advice = "give its file with --vanilla: catis export MODEL -r 0 --onnx FILE"
    if not like.model:
        raise ValueError(f"{like.path}: nothing tells which model it is, to time vanilla beside it; {advice}")
    model = models.load_model(like.model).eval()
    path = folder / "vanilla.onnx"
    wrapped, shape = convert(model, path)
    write_contract(path, model, ExportReport(path, shape, True, wrapped.output, ()))
    made = read_file(path)
    if (made.vanilla_macs, made.shape[1:]) != (like.vanilla_macs, like.shape[1:]):
        raise ValueError(f"{like.path} was made of another {like.model} than this name stands for; {advice}")
    return made


def _check_alike(files: Sequence[ExportedFile], runtime: Runtime) -> None:
    """Refuse files whose times cannot be compared."""
    for file in files:
        runtime_for(file.path, runtime)
        if (file.vanilla_macs, file.shape[1:]) != (files[0].vanilla_macs, files[0].shape[1:]):
            raise ValueError(f"{file.path} and {files[0].path} are of different models or image sizes: time them apart")


def _batches(files: Sequence[ExportedFile], protocol: Protocol) -> tuple[int, ...]:
    """Images per pass: those asked for, or the number that a file is fixed to."""
    fixed = {file.shape[0]: file.path for file in files if file.shape[0] is not None}
    asked = protocol.batch_sizes or tuple(fixed) or (1, 8)
    for batch, path in fixed.items():
        if set(asked) != {batch}:
            raise ValueError(f"{path} takes {batch} images at once: give --batch-size {batch}")
    return tuple(sorted({batch for batch in asked if batch is not None}))


def _times(
    runners: Mapping[ExportedFile, Runner], batch: int, protocol: Protocol, threads: int, seed: int
) -> Mapping[ExportedFile, Sequence[float]]:
    images = noise(next(iter(runners)).shape, batch, seed)
    steps = {file: partial(run, images) for file, run in runners.items()}
    timed = time_rounds(
        steps, protocol.rounds, warmup=protocol.warmup, max_seconds=protocol.max_seconds, threads=threads, seed=seed
    )
    return {file: timed.seconds.get(file, ()) for file in runners}


def _products(
    runners: Mapping[ExportedFile, Runner], runtime: Runtime, batch: int, threads: int, seed: int
) -> dict[ExportedFile, float]:
    """Seconds that the products of a pass take, of every file whose runtime tells."""
    told = {file: seconds_of_products(file.path, runtime, noise(file.shape, batch, seed), threads) for file in runners}
    return {file: seconds for file, seconds in told.items() if seconds is not None}


def _measured(file: ExportedFile, batch: int, seconds: Sequence[float], products: float | None) -> Measured:
    return Measured(
        file.variant,
        batch,
        False,
        file.macs,
        file.tokens_last,
        seconds,
        roofline=() if products is None else (products,),
        problem="" if seconds else "out of memory",
        file=file.path.name,
        number_format=file.number_format,
    )


def _rig(runtime: Runtime, threads: int, protocol: Protocol, seed: int) -> dict[str, Any]:
    return {
        "device": f"cpu ({platform.processor() or platform.machine()})",
        "runtime": runtime,
        "threads": threads,
        "precision": "as in each file",
        "chosen_by": describe_runtime(runtime),
        "warmup": protocol.warmup,
        "seed": seed,
        "torch": torch.__version__,
        "catis": __version__,
    }
