"""Running a model on prepared images: its mode, device and dtype, and what of its output is logits."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from torch import Tensor, nn

from catis.data.preprocessing import Pixels, Preprocessing

__all__ = ["batch_images", "classes", "evaluating", "logits_of"]


def batch_images(pixels: Sequence[Pixels] | Pixels, preprocessing: Preprocessing, model: nn.Module) -> Tensor:
    """Prepared images on the model's device and in its dtype."""
    weight = next(model.parameters())
    return preprocessing.normalise(pixels, weight.device).to(weight.dtype)


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """Eval mode for the length of a with-block."""
    before = model.training
    model.eval()
    try:
        yield
    finally:
        model.train(before)


def logits_of(model: nn.Module, output: Any) -> Tensor | None:
    """(B, classes) of what a model returned, or None if it is no classifier."""
    logits = getattr(output, "logits", output)
    if logits is output and getattr(model, "num_classes", None) == 0:
        return None
    return logits if isinstance(logits, Tensor) and logits.ndim == 2 else None


def classes(model: nn.Module, output: Any) -> Tensor | None:
    """(B,) predicted classes, or None if the model is no classifier."""
    logits = logits_of(model, output)
    return None if logits is None else logits.argmax(-1)
