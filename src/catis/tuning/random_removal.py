"""Removal at random: what any way of choosing tokens has to beat at the same schedule."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from hashlib import blake2b
from typing import ClassVar

import torch

from catis.core.method import Method
from catis.core.plan import Plan
from catis.core.view import BlockView


@dataclass(frozen=True)
class RandomRemoval(Method):
    """Evicts r patch tokens at random; a control, not one of the methods that `catis.list_methods` names.

    Which ones depends on the seed, the block and the number of tokens alone, so that an image loses the same tokens
    whatever stands beside it in the batch. All images lose the same places: use several seeds to see what that does.

    Example:
        >>> import catis, timm
        >>> model = catis.apply(timm.create_model("vit_tiny_patch16_224"), RandomRemoval(seed=1), r=8)
        >>> model.catis_reduction.method.name
        'random'
    """

    name: ClassVar[str] = "random"
    seed: int = 0  # other seeds remove other tokens

    def plan(self, view: BlockView) -> Plan:
        """Evict the first r of a random order of the tokens."""
        order = torch.tensor(_order(self.seed, view.block, view.num_patches), device=view.features.device)
        order = order.expand(view.features.shape[0], -1)
        return Plan(order[:, view.r :].sort(-1).values, order[:, : view.r])


@cache
def _order(seed: int, block: int, num_patches: int) -> tuple[int, ...]:
    def drawn(token: int) -> bytes:
        return blake2b(f"{seed} {block} {num_patches} {token}".encode()).digest()

    return tuple(sorted(range(num_patches), key=drawn))  # the same on every machine and in every version
