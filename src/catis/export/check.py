"""Runs an exported model beside PyTorch and refuses it when they differ."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from catis.errors import CatisError
from catis.export.report import Comparison

Runner = Callable[[Tensor], Any]
"""Runs an exported model on a batch and returns its output as an array or tensor."""


class ExportMismatchError(CatisError):
    """The exported model does not compute what the PyTorch model computes; nothing was written."""


def default_batches(shape: tuple[int, ...], dynamic_batch: bool) -> list[tuple[int, ...]]:
    """Shapes of the batches that an export is checked on: sizes 1, 2, 3 and 5, or the one size it takes, thrice."""
    sizes = (1, 2, 3, 5) if dynamic_batch else (shape[0],) * 3
    return [(size, *shape[1:]) for size in sizes]


@torch.no_grad()
def check(
    model: nn.Module, runners: Mapping[str, Runner], batches: Sequence[tuple[int, ...]], tolerance: float
) -> tuple[Comparison, ...]:
    """Compare runtimes with PyTorch on random batches.

    Args:
        model: The PyTorch model, returning one tensor.
        runners: Runtimes by name.
        batches: Shape of each batch.
        tolerance: Largest absolute difference allowed.

    Raises:
        ExportMismatchError: A runtime is further away than that, or returns NaN.
    """
    generator = torch.Generator().manual_seed(0)
    comparisons = []
    for shape in batches:
        pixels = torch.randn(shape, generator=generator).to(next(model.parameters()).dtype)
        expected = model(pixels)
        for name, run in runners.items():
            difference = float((torch.as_tensor(run(pixels)) - expected).abs().max())
            if not difference <= tolerance:
                raise ExportMismatchError(_message(name, shape, difference, tolerance))
            comparisons.append(Comparison(name, shape[0], difference))
    return tuple(comparisons)


def _message(name: str, shape: tuple[int, ...], difference: float, tolerance: float) -> str:
    return (
        f"{name} and PyTorch differ by {difference:.2e} on a random batch of shape {shape}, more than {tolerance:g}; "
        "nothing was written. If two token pairs are equally similar to within rounding, the runtime may have chosen "
        "the other one: try another r, or raise the tolerance if that is acceptable to you"
    )
