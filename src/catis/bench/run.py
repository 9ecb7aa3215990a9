"""Runs a benchmark: how long images take to read, every case of batch size and compilation, then the rows."""

from __future__ import annotations

import copy
import platform
from pathlib import Path
from typing import Any

import timm
import torch
from torch import nn

from catis import __version__, hosts
from catis.bench.cases import Cases, Tell
from catis.bench.files import describe_runtime
from catis.bench.report import Report
from catis.bench.rows import Facts, Measured, rows_of
from catis.bench.settings import Settings
from catis.bench.timing import least_seconds
from catis.data.batches import batches
from catis.data.images import ImageFolder, NoImagesError
from catis.native.library import describe


def bench_model(
    model: nn.Module,
    settings: Settings,
    *,
    name: str = "",
    data: str | Path | None = None,
    workers: int = 2,
    progress: Tell | None = None,
) -> Report:
    """Time methods against vanilla on one model.

    Args:
        model: A supported model; it is not changed.
        name: What to call it in the rows.
        data: A folder of images, to tell whether reading them would take longer than the model.

    Example:
        >>> from catis.bench.settings import Protocol
        >>> quick = Settings(("tome",), (8,), Protocol((1,), rounds=3), causes=False)
        >>> report = bench_model(timm.create_model("test_vit").eval(), quick)
        >>> [(row.method, row.rounds, round(row.gmacs_ratio, 2)) for row in report.rows]
        [('vanilla', 3, 1.0), ('tome', 3, 1.3)]
    """
    tell = progress or (lambda what, share: None)
    tell("building", 0.0)
    reading = None if data is None else seconds_per_image(data, model, workers)
    vanilla = _placed(model, settings)
    prepared = Cases.of(vanilla, settings, tell)
    cases = [(compiled, batch) for compiled in settings.compiled for batch in settings.batch_sizes]
    measured: list[Measured] = []
    for number, (compiled, batch) in enumerate(cases):

        def told(what: str, share: float, number: int = number, batch: int = batch) -> None:
            tell(f"batch {batch}: {what}", (number + share) / len(cases))

        measured += prepared.measure(compiled, batch, told)
    rows = rows_of(measured, Facts.of(vanilla, name or type(model).__name__), reading)
    return Report(tuple(rows), _rig(settings))


def seconds_per_image(root: str | Path, model: nn.Module, workers: int, limit: int = 64, repeats: int = 3) -> float:
    """Wall-clock seconds to decode, resize, crop and normalise one image, with some threads at work.

    The shortest of the passes counts. Files are in the page cache by then: a slow disk is not seen.

    Example:
        >>> import tempfile
        >>> from PIL import Image
        >>> folder = tempfile.mkdtemp()
        >>> Image.new("RGB", (300, 300)).save(f"{folder}/one.png")
        >>> seconds_per_image(folder, timm.create_model("test_vit"), workers=1) > 0
        True
    """
    preprocessing = hosts.find(model).preprocessing()
    source = ImageFolder(root, preprocessing, limit)

    def read() -> int:
        count = 0
        for batch in batches(source, 2 * workers, workers):
            if batch.pixels:
                preprocessing.normalise(batch.pixels)
            count += len(batch.pixels)
        return count

    count = read()
    if count == 0:
        raise NoImagesError(f"none of the {len(source)} images tried in {root} could be read")
    return least_seconds(read, repeats) / count


def _placed(model: nn.Module, settings: Settings) -> nn.Module:
    """The model on the device and in the format asked for; a copy if that changes anything."""
    first = next(model.parameters())
    if first.device == settings.place and first.dtype == settings.precision.weights:
        return model
    return copy.deepcopy(model).to(settings.place, settings.precision.weights)


def _rig(settings: Settings) -> dict[str, Any]:
    device = settings.place
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else platform.processor() or platform.machine()
    return {
        "device": f"{device} ({name})",
        "runtime": settings.runtime,
        "threads": settings.threads or torch.get_num_threads(),
        "precision": settings.precision.name,
        "chosen_by": _chosen_by(settings),
        "warmup": settings.protocol.warmup,
        "seed": settings.seed,
        "torch": torch.__version__,
        "timm": timm.__version__,
        "catis": __version__,
    }


def _chosen_by(settings: Settings) -> str:
    """What decides which tokens go, in eager rows."""
    if settings.runtime != "torch":
        return describe_runtime(settings.runtime)
    return describe() if settings.place.type == "cpu" and settings.precision.name == "float32" else "PyTorch"
