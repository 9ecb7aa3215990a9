"""Running a model on prepared images: its mode, device and dtype, and copies of it on the same weights."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import chain

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


def shared_copy(model: nn.Module) -> nn.Module:
    """A copy of a model on the same weights: what is put on it is seen by nobody else, and it takes no memory for them.

    Example:
        >>> model = nn.Linear(2, 2)
        >>> shared_copy(model) is model, shared_copy(model).weight is model.weight
        (False, True)
    """
    tensors = chain(model.parameters(), model.buffers())
    return copy.deepcopy(model, {id(tensor): tensor for tensor in tensors})
