"""What vanilla says of images: the answers that every candidate is compared with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from catis.calibration.answers import answer_of
from catis.core.reduction import Reduction
from catis.hosts import Handle

SURENESS = 6
"""How much more the answers at an input size count where vanilla is surer: its entropy to the power of minus this.
Between 4 and 8 input sizes of three models came in the order that labels gave them, on the half that was tuned on."""


def vanilla_answers(
    handle: Handle, batches: Sequence[Tensor], corrupted: Tensor, sizes: Sequence[int | None]
) -> tuple[list[Tensor], bool]:
    """What the vanilla model says of batches, averaged over input sizes, and whether these are logits.

    Each size has the chance of its own grid of patches in it: beside answers at one size, every other size would look
    worse than it is. But a model may be weaker at some size, so that those where it is surer count more.

    Args:
        handle: On the model, in eval mode; left as it is.
        batches: (B, 3, H, W) prepared images.
        corrupted: (n,) which of the images are corrupted; how sure vanilla is, the others say.
        sizes: Input sizes, None for the model's own.

    Returns:
        Log probabilities or features, (B, D) for each batch.
    """
    by_size = [_at_size(handle, batches, size) for size in sizes]
    answers, are_logits = torch.stack([answer for answer, _ in by_size]), by_size[0][1]  # (sizes, n, D)
    if len(sizes) > 1:
        logs = answers.log_softmax(-1)
        mixed = logs + sureness(logs[:, ~corrupted]).log()[:, None, None] if are_logits else answers
        answers = mixed.logsumexp(0, keepdim=True) if are_logits else mixed.mean(0, keepdim=True)
    return list(torch.split(answers[0], [len(batch) for batch in batches])), are_logits


def sureness(logs: Tensor) -> Tensor:
    """(sizes,) how much the answers at each input size count, from log probabilities (sizes, n, D); the sum is 1.

    Example:
        >>> sureness(torch.tensor([[[0.9, 0.1]], [[0.8, 0.2]]]).log())
        tensor([0.9301, 0.0699])
    """
    entropy = torch.special.entr(logs.exp()).sum(-1).mean(-1).clamp_min(1e-6)
    return (-SURENESS * entropy.log()).softmax(0)


def answer_to(handle: Handle, batch: Tensor) -> tuple[Tensor, bool]:
    """(B, D) what the model says of a batch as it is now, and whether these are logits."""
    weight = next(handle.model.parameters())
    return answer_of(handle, handle.model(batch.to(weight.device, weight.dtype)))


def _at_size(handle: Handle, batches: Sequence[Tensor], size: int | None) -> tuple[Tensor, bool]:
    """(n, D) what vanilla says when it is fed images of a size."""
    with handle.installed(handle.bind(replace(Reduction.none(), input_size=size))):
        answers = [answer_to(handle, batch) for batch in batches]
    return torch.cat([answer for answer, _ in answers]), answers[0][1]
