"""What a host says of a model before anything is run."""

from __future__ import annotations

from typing import NamedTuple

from torch import nn

from catis.core.reduction import Reduction


class ModelFacts(NamedTuple):
    """What the core must know of a model.

    Attributes:
        depth: Number of blocks.
        num_prefix: Prefix tokens: CLS, distillation, registers.
        has_cls: Whether token 0 is a CLS token.
        windowed: Blocks that attend in windows, which remove nothing.
    """

    depth: int
    num_prefix: int
    has_cls: bool
    windowed: tuple[int, ...] = ()

    def bound(self, reduction: Reduction) -> Reduction:
        """A reduction, checked against such a model and fitted to it."""
        return reduction.bound(self.depth, self.num_prefix, self.windowed)


class BlockLinears(NamedTuple):
    """The linear layers of one block.

    Attributes:
        attention: Those that run on the tokens that enter: query, key, value, gate, output.
        mlp: Those that run on the tokens that leave the reduction.
    """

    attention: tuple[nn.Linear, ...]
    mlp: tuple[nn.Linear, ...]
