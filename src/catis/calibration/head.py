"""Fits the classifier: a ridge from the reduced model's last feature to vanilla's, folded into its weights."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor, nn

from catis.calibration.ridge import NormalEquations, best_step
from catis.calibration.targets import balanced
from catis.hosts import Handle

HeadStep = tuple[Tensor, Tensor]
"""What is added to the weight and the bias of the classifier."""


def classifier_in(handle: Handle, images: Tensor) -> nn.Linear | None:
    """The linear layer whose output the logits are; None where there is none, or several are averaged."""
    outputs: dict[nn.Linear, Tensor] = {}
    linears = [module for module in handle.model.modules() if isinstance(module, nn.Linear)]
    hooks = [layer.register_forward_hook(lambda m, _, output: outputs.__setitem__(m, output)) for layer in linears]
    try:
        logits = handle.logits(handle.model(images))
    finally:
        for hook in hooks:
            hook.remove()
    if logits is None:
        return None
    matching = [layer for layer, output in outputs.items() if output.data_ptr() == logits.data_ptr()]
    return matching[0] if len(matching) == 1 and matching[0].bias is not None else None


def head_step(
    head: nn.Linear, reduced: Sequence[Tensor], vanilla: Sequence[Tensor], held_out: Sequence[bool]
) -> HeadStep | None:
    """What to add to the classifier so that it reads the reduced features as the vanilla ones.

    Args:
        head: The classifier.
        reduced: (B, C) features of each batch under reduction.
        vanilla: The same of the vanilla model.
        held_out: Whether the batch chooses the penalty.

    Example:
        >>> import torch
        >>> head, features = nn.Linear(2, 3), torch.randn(64, 2)
        >>> step = head_step(head, [features, features], [features + 1, features + 1], [False, True])
        >>> moved = nn.functional.linear(features, head.weight + step[0], head.bias + step[1])
        >>> torch.allclose(moved, head(features + 1), atol=1e-3)
        True
    """
    width = head.in_features
    pair = tuple(NormalEquations(width, width, device=head.weight.device) for _ in range(2))
    for own, wanted, side in zip(reduced, vanilla, held_out, strict=True):
        pair[side].add(own, wanted - own, balanced(own.new_ones(len(own)), wanted - own))
    step = best_step(*pair)
    if step is None:
        return None
    wide = head.weight.double()
    return (wide @ step[0]).to(head.weight.dtype), (wide @ step[1]).to(head.weight.dtype)
