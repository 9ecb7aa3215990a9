"""Running a model on prepared images: its mode, device and dtype."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from torch import Tensor, nn

from catis.data.preprocessing import Pixels, Preprocessing


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
