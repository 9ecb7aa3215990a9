"""The models that are timed against each other: vanilla and one per method and amount, all on the same weights."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from inspect import signature
from itertools import chain
from typing import Any

import torch
from torch import Tensor, nn

from catis import hosts
from catis.api import apply
from catis.bench.settings import Precision
from catis.bench.timing import Step
from catis.core.reduction import Reduction
from catis.core.schedule import RLike
from catis.recipes import Recipe


@dataclass(frozen=True)
class Variant:
    """One model to time.

    Attributes:
        reduction: What is on it, as it was asked for.
    """

    reduction: Reduction

    @property
    def method(self) -> str:
        """Name of the method, or "vanilla"."""
        return self.reduction.method.name

    @property
    def r(self) -> str:
        """The amount as the command line spells it; "0" for vanilla."""
        return str(self.reduction.schedule)

    @property
    def is_vanilla(self) -> bool:
        """Whether it is the vanilla model, which the others are compared with."""
        return self.reduction == Reduction.none()


def build_variants(
    model: nn.Module, methods: tuple[str, ...], amounts: tuple[RLike, ...], recipes: tuple[Recipe, ...] = ()
) -> dict[Variant, nn.Module]:
    """Vanilla first, then every method at every amount, then recipes.

    The model itself is not changed, and no weights are copied but those that a recipe has calibrated.

    Example:
        >>> import timm
        >>> variants = build_variants(timm.create_model("test_vit"), ("tome", "catis"), (2, 0.1))
        >>> [f"{variant.method} {variant.r}" for variant in variants]
        ['vanilla 0', 'tome 2', 'catis 2', 'tome 0.1', 'catis 0.1']
    """
    table = {Variant(Reduction.none()): shared_copy(model)}
    for r in amounts:
        for method in methods:
            variant = Variant(Reduction.of(method, r))
            table[variant] = apply(shared_copy(model), variant.reduction)
    for recipe in recipes:
        table[Variant(recipe.reduction)] = apply(shared_copy(model), recipe=recipe)
    return table


def shared_copy(model: nn.Module) -> nn.Module:
    """A copy of a model's structure on the same weights, so that many variants fit where one does.

    Example:
        >>> model = nn.Linear(2, 2)
        >>> shared_copy(model) is model, shared_copy(model).weight is model.weight
        (False, True)
    """
    tensors = chain(model.parameters(), model.buffers())
    return copy.deepcopy(model, {id(tensor): tensor for tensor in tensors})


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
    compiled: Callable[..., Any] = torch.compile(model, fullgraph=True, dynamic=False, **apart)
    return compiled


def reduction_of(model: nn.Module) -> Reduction | None:
    """The reduction on a model; None for a vanilla one."""
    handle = hosts.find(model)
    return handle.reduction
