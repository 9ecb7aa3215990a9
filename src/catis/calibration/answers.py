"""How far a reduced model's answers are from vanilla's: KL of the logits, or the angle of features without any."""

from __future__ import annotations

from typing import Any

import torch.nn.functional as F
from torch import Tensor

from catis.errors import CatisError
from catis.hosts import Handle
from catis.hosts.swap import base_class


def check_answers(handle: Handle) -> None:
    """Refuse a model that reads more than images, such as one of images and texts: nobody gives it the rest.

    Raises:
        ValueError: The message names the part of the model to take instead.
        UnsupportedModelError: The model cannot be reduced either.
    """
    _ = handle.facts
    if getattr(handle.model, "main_input_name", "pixel_values") == "pixel_values":
        return
    kind = base_class(handle.model).__name__
    part = next(name for name, module in handle.model.named_modules() if module is handle.vit)
    raise ValueError(
        f"{kind} reads more than images, so that its answers to images alone cannot be compared: take the part that "
        f"sees, model.{part}, here and for catis.apply; {kind} then runs with it"
    )


def answer_of(handle: Handle, output: Any) -> tuple[Tensor, bool]:
    """(B, D) what a model says of a batch, and whether these are logits.

    Raises:
        CatisError: The answer is not finite, or there is none.
    """
    logits = handle.logits(output)
    answer = _features(output) if logits is None else logits
    if answer is None:
        raise CatisError(f"{type(handle.model).__name__} gives neither logits nor features, so nothing can be compared")
    if not bool(answer.isfinite().all()):
        what = "logits" if logits is not None else "features"
        raise CatisError(f"the {what} of {type(handle.model).__name__} are not finite (NaN or infinite)")
    return answer.float(), logits is not None


def _features(output: Any) -> Tensor | None:
    """The pooled vector, or the first token of the last tokens."""
    pooled = getattr(output, "pooler_output", None)
    if pooled is None:
        pooled = getattr(output, "last_hidden_state", output)
    if not isinstance(pooled, Tensor):
        return None
    return pooled if pooled.ndim == 2 else pooled.flatten(1, -2)[:, 0]


def distances(vanilla: Tensor, reduced: Tensor, are_logits: bool) -> Tensor:
    """(B,) KL(vanilla || reduced) of logits; 1 - cosine of features.

    Example:
        >>> import torch
        >>> distances(torch.tensor([[0.0, 1.0]]), torch.tensor([[0.0, 1.0]]), True).tolist()
        [0.0]
    """
    if not are_logits:
        return 1 - F.cosine_similarity(vanilla, reduced, dim=-1)
    log_vanilla, log_reduced = vanilla.log_softmax(-1), reduced.log_softmax(-1)
    return (log_vanilla.exp() * (log_vanilla - log_reduced)).sum(-1)
