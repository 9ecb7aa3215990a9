"""The models that are timed against each other: vanilla and one per method and amount, all on the same weights."""

from __future__ import annotations

from collections.abc import Callable
from inspect import signature
from typing import Any

import torch
from torch import Tensor, nn

from catis.api import apply
from catis.bench.settings import Precision
from catis.bench.timing import Step
from catis.core.reduction import Reduction
from catis.core.schedule import RLike
from catis.inference import shared_copy
from catis.recipes import Recipe

VANILLA = Reduction.none()
"""What the others are compared with; a method at r=0 is a variant of its own."""


def build_variants(
    model: nn.Module, methods: tuple[str, ...], amounts: tuple[RLike, ...], recipes: tuple[Recipe, ...] = ()
) -> dict[Reduction, nn.Module]:
    """Models by what is on them, as it was asked for: vanilla first, then every method at every amount, then recipes.

    The model itself is not changed, and no weights are copied but those that a recipe has calibrated.

    Example:
        >>> import timm
        >>> variants = build_variants(timm.create_model("test_vit"), ("tome", "catis"), (2, 0.1))
        >>> [f"{variant.method.name} {variant.schedule}" for variant in variants]
        ['vanilla 0', 'tome 2', 'catis 2', 'tome 0.1', 'catis 0.1']
    """
    table = {VANILLA: shared_copy(model)}
    for r in amounts:
        for method in methods:
            variant = Reduction.of(method, r)
            table[variant] = apply(shared_copy(model), variant)
    for recipe in recipes:
        table[recipe.reduction] = apply(shared_copy(model), recipe=recipe)
    return table


def default_amount(num_patches: int, depth: int) -> int:
    """Four fifths of the patch tokens over the depth: the paper's r=13 for 196 patches and 12 blocks.

    Example:
        >>> default_amount(196, 12), default_amount(196, 24)
        (13, 6)
    """
    return max(1, 4 * num_patches // (5 * depth))


def forward_step(model: Callable[[Tensor], object], images: Tensor, precision: Precision) -> Step:
    """One forward pass, as a step to time."""

    def step() -> object:
        with torch.no_grad(), precision.autocast(images.device):
            return model(images)

    return step


def compile_model(model: nn.Module) -> Callable[..., Any]:
    """The model under torch.compile, for one input shape, with no graph break."""
    # Variants share code; without this, the newest PyTorch counts them all against one limit of recompilations.
    known = signature(torch.compile).parameters
    apart: dict[str, Any] = {"isolate_recompiles": True} if "isolate_recompiles" in known else {}
    return torch.compile(model, fullgraph=True, dynamic=False, **apart)
