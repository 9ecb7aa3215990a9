"""What vanilla says of images: the answers that every candidate is compared with, averaged over input sizes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from catis.calibration.answers import answer_of, distances
from catis.core.reduction import Reduction
from catis.hosts import Handle

UNSURE = 1.5
"""How much it counts against an input size that vanilla is less sure there: its entropy beside that at its own size, to
the power of this. With it the best input size of three models at two budgets was one that labels gave too."""


@dataclass(frozen=True)
class Teacher:
    """Answers of the vanilla model, averaged over input sizes.

    Each size has the chance of its own grid of patches in it: beside answers at one size, every other size would look
    worse than it is. But vanilla may be weaker at a size, and a mean trusts it there all the same: how sure it is of
    clean images tells.
    """

    answers: list[Tensor]  # (B, D) log probabilities or features of each batch
    are_logits: bool
    handicaps: list[float]  # of each size: how much nearer than at vanilla's own a candidate must be there
    own: Tensor  # (n, D) answers at its own size alone
    moved: list[float]  # of each size: how far answers to clean images are from those at its own

    @classmethod
    def of(cls, handle: Handle, batches: Sequence[Tensor], clean: Tensor, sizes: Sequence[int | None]) -> Teacher:
        """Run the vanilla model on batches (B, 3, H, W) at all sizes, its own (None) first.

        Args:
            handle: On the model, in eval mode; left as it is.
            batches: Prepared images.
            clean: (n,) which of them are not corrupted.
            sizes: Input sizes.
        """
        by_size = [_at_size(handle, batches, size) for size in sizes]
        stacked, are_logits = torch.stack([answer for answer, _ in by_size]), by_size[0][1]  # (sizes, n, D)
        counts, own = [len(batch) for batch in batches], stacked[0]
        moved = [float(distances(own, other, are_logits)[clean].mean()) for other in stacked]
        if not are_logits:
            return cls(list(torch.split(stacked.mean(0), counts)), False, [1.0] * len(sizes), own, moved)
        logs = stacked.log_softmax(-1)
        mean = logs.logsumexp(0) if len(sizes) > 1 else own
        return cls(list(torch.split(mean, counts)), True, handicaps(logs[:, clean]), own, moved)


def handicaps(logs: Tensor) -> list[float]:
    """How much nearer to vanilla a candidate must be at each input size, from log probabilities (sizes, n, D).

    Example:
        >>> [round(value, 2) for value in handicaps(torch.tensor([[[0.9, 0.1]], [[0.8, 0.2]]]).log())]
        [1.0, 1.91]
    """
    entropy = torch.special.entr(logs.double().exp()).sum(-1).mean(-1).clamp_min(1e-6)
    return [float(ratio) for ratio in (entropy / entropy[0]).pow(UNSURE)]


def answer_to(handle: Handle, batch: Tensor) -> tuple[Tensor, bool]:
    """(B, D) what the model says of a batch as it is now, and whether these are logits."""
    weight = next(handle.model.parameters())
    return answer_of(handle, handle.model(batch.to(weight.device, weight.dtype)))


def _at_size(handle: Handle, batches: Sequence[Tensor], size: int | None) -> tuple[Tensor, bool]:
    """(n, D) what vanilla says when it is fed images of a size."""
    with handle.installed(handle.bind(replace(Reduction.none(), input_size=size))):
        answers = [answer_to(handle, batch) for batch in batches]
    return torch.cat([answer for answer, _ in answers]), answers[0][1]
