"""From images to predictions: precision, compilation, the classes that count, and running out of memory."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from timm.utils.decay_batch import decay_batch_step
from torch import Tensor, nn

from catis import hosts
from catis.data.images import BrokenImage
from catis.data.preprocessing import Pixels, Preprocessing
from catis.errors import CatisError, is_out_of_memory
from catis.evaluate.images import Images
from catis.inference import evaluating
from catis.runs.predictions import Predictions
from catis.runs.spec import RunSpec

Progress = Callable[[int, int], None]
"""Called after each batch with images done and images there are."""
TOP = 5
CLIPS = 6
"""Axes of a batch of clips: (B, V, T, H, W, 3)."""


class BrokenImageError(CatisError):
    """An image could not be read, and the run was told to stop at the first such."""


@dataclass(frozen=True)
class Predicted:
    """What came of a pass over a data set."""

    predictions: Predictions  # of every image that could be read
    broken: list[BrokenImage]  # every image that could not
    batch_size: int  # images per batch in the end; smaller than asked for if memory ran out


def predict(
    model: nn.Module,
    images: Images,
    preprocessing: Preprocessing,
    spec: RunSpec,
    *,
    retry: bool = True,
    progress: Progress | None = None,
) -> Predicted:
    """Run a model, vanilla or reduced, over a data set.

    When memory runs out, the pass begins again with fewer images per batch (timm's steps), so that the result is that
    of a run with that batch size.

    Raises:
        BrokenImageError: An image could not be read, and spec.on_error is "raise".
        CatisError: Memory ran out for good, the model is no classifier, not one image could be read, or logits are
            not finite.
    """
    batch_size = spec.batch_size
    with _placed(model, spec) as run, torch.inference_mode():
        while True:
            try:
                return _pass(run, images, preprocessing, spec, batch_size, progress)
            except (RuntimeError, MemoryError) as error:
                if not is_out_of_memory(error):
                    raise
                smaller = int(decay_batch_step(batch_size)) if retry else 0  # type: ignore[no-untyped-call]
                if smaller < 1:
                    advice = "even one image at a time is too much for it"
                    advice = advice if retry else "pass --retry, or a smaller --batch-size"
                    raise CatisError(f"out of memory with {batch_size} images per batch: {advice}") from error
                batch_size = smaller
            if torch.cuda.is_available():
                torch.cuda.empty_cache()


def _pass(
    run: Callable[[Tensor], Tensor],
    images: Images,
    preprocessing: Preprocessing,
    spec: RunSpec,
    batch_size: int,
    progress: Progress | None,
) -> Predicted:
    about = images.about
    scored = None if about.scored is None else torch.tensor(about.scored, device=spec.device)
    broken: list[BrokenImage] = []
    indices, best = [], []
    for batch in images.batches(max(1, batch_size // about.views)):
        broken += batch.broken
        if batch.broken and spec.on_error == "raise":
            first = batch.broken[0]
            raise BrokenImageError(f"{first.name}: {first.reason}; pass --on-error skip to leave such images out")
        if len(batch.indices):
            best.append(_best(_logits(run, batch.pixels, preprocessing, spec, batch_size), scored, spec))
            indices.append(batch.indices)
        if progress is not None:
            progress(batch.end, len(about.names))
    if not best:
        raise CatisError(f"none of {len(about.names)} images could be read; the first: {broken[0].name}: "
                         f"{broken[0].reason}")  # fmt: skip
    order = np.concatenate(indices)
    top, confidence, margin = (np.concatenate(parts) for parts in zip(*best, strict=True))
    names = tuple(about.names[index] for index in order)
    return Predicted(Predictions(names, about.labels[order], top, confidence, margin), broken, batch_size)


def _logits(
    run: Callable[[Tensor], Tensor], pixels: Pixels, preprocessing: Preprocessing, spec: RunSpec, batch_size: int
) -> Tensor:
    """(B, classes) of images, or of clips, whose views go through the model side by side."""
    inputs = pixels.reshape(-1, *pixels.shape[2:]) if pixels.ndim == CLIPS else pixels
    parts = []
    for start in range(0, len(inputs), batch_size):
        part = inputs[start : start + batch_size]
        padded = _padded(part, batch_size) if spec.compile else part
        parts.append(run(preprocessing.normalise(padded, spec.device))[: len(part)])
    logits = torch.cat(parts)
    return mean_views(logits, pixels.shape[1]) if len(inputs) > len(pixels) else logits


def mean_views(logits: Tensor, views: int) -> Tensor:
    """From (B * views, classes) to (B, classes): the softmax is the mean over the views, as in VideoMAE's test.

    Example:
        >>> both = mean_views(torch.tensor([[0.0, 0.0], [1.0, -1.0]]), views=2)
        >>> [round(share, 4) for share in both.softmax(1)[0].tolist()]  # of 0.5 and 0.8808
        [0.6904, 0.3096]
    """
    shares = logits.float().log_softmax(1).reshape(-1, views, logits.shape[1])
    return shares.logsumexp(1) - math.log(views)


def _best(logits: Tensor, scored: Tensor | None, spec: RunSpec) -> tuple[Any, Any, Any]:
    """(B, k) classes, best first, (B,) confidence and (B,) margin, as arrays."""
    logits = (logits if scored is None else logits[:, scored]).float()
    if not bool(torch.isfinite(logits).all()):
        raise CatisError(f"logits are not finite in {spec.precision}: use another precision, such as float32 or amp")
    values, classes = logits.topk(min(TOP, logits.shape[1]))
    confidence = torch.exp(values[:, 0] - logits.logsumexp(1))
    margin = values[:, 0] - values[:, min(1, values.shape[1] - 1)]
    chosen = classes if scored is None else scored[classes]
    return chosen.cpu().numpy(), confidence.cpu().numpy(), margin.cpu().numpy()


def _padded(pixels: Pixels, batch_size: int) -> Pixels:
    """A full batch, so that a compiled model sees one shape only; the blank images are dropped afterwards."""
    blank = np.zeros((batch_size - len(pixels), *pixels.shape[1:]), np.uint8)
    return np.concatenate([pixels, blank]) if len(blank) else pixels


@contextmanager
def _placed(model: nn.Module, spec: RunSpec) -> Iterator[Callable[[Tensor], Tensor]]:
    """The model on its device, in its precision, compiled or not, as a function from images to logits."""
    device = torch.device(spec.device)
    halved = spec.precision in ("bfloat16", "float16")
    net = (deepcopy(model).to(getattr(torch, spec.precision)) if halved else model).to(device)
    autocast: Any = nullcontext()
    if spec.precision.startswith("amp"):
        dtype = torch.bfloat16 if spec.precision == "amp-bfloat16" else torch.float16
        autocast = torch.autocast(device.type, dtype)
    if spec.compile:
        torch.compiler.reset()  # otherwise a sweep reaches the limit of recompilations, and goes on uncompiled
    call: Any = torch.compile(net) if spec.compile else net
    handle, dtype_in = hosts.find(net), next(net.parameters()).dtype

    def run(images: Tensor) -> Tensor:
        with autocast:
            logits = handle.logits(call(images.to(dtype_in)))
        if logits is None:
            raise CatisError(f"{type(net).__name__} is no classifier: there are no classes to compare with labels")
        return logits

    with evaluating(net):
        yield run
