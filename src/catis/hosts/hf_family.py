"""What catis must know of one modeling file of transformers, by class name so that none is imported for the asking."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce
from typing import Any

from torch import nn
from transformers.utils import ModelOutput

from catis.hosts.hf_parts import HfBlockParts
from catis.hosts.hooks import PLAIN, Convention


@dataclass(frozen=True)
class Family:
    """One modeling file of transformers.

    Attributes:
        title: Name for people.
        module: Name of the file's module.
        stem: What its class names begin with.
        blocks: Attribute path of the list of blocks.
        parts: Adapter of a block.
        embed: Runs the model's embedding: a `hf_readout.Embed`, or one of `tower_readout` where `packed`.
        finish: Runs what comes after the blocks, likewise.
        prefix: Prefix tokens that every model of it has, CLS first; a model with none has no CLS either.
        registers: Whether as many more follow as its configuration says.
        model: Ending of the class whose forward runs the blocks.
        block: Ending of the class of its blocks.
        attention: Ending of the class that holds the projections; several with a bar between them.
        packed: Whether images of different sizes come in one call.
        windowed: Blocks that attend in windows.
        taken: Blocks whose tokens `finish` reads, beside the last.
        backbone: Whether the class returns maps of several blocks; then its own read-out makes them, not `finish`.
        block_returns: How its blocks return their tokens, for hooks.
        refuses: What of a model cannot be reduced rightly, in words; None if nothing.
    """

    title: str
    module: str
    stem: str
    blocks: str
    parts: Callable[[Any], HfBlockParts]
    embed: Callable[..., Any]
    finish: Callable[..., ModelOutput]
    prefix: int = 1
    registers: bool = False
    model: str = "Model"
    block: str = "Layer"
    attention: str = "Attention"
    packed: bool = False
    windowed: Callable[[Any], tuple[int, ...]] = lambda model: ()
    taken: Callable[[Any], tuple[int, ...]] = lambda model: ()
    backbone: bool = False
    block_returns: Convention = PLAIN
    refuses: Callable[[Any], str | None] = lambda model: None

    @property
    def has_cls(self) -> bool:
        """Whether token 0 is a CLS token."""
        return self.prefix > 0

    def num_prefix(self, model: Any) -> int:
        """Prefix tokens of a model."""
        return self.prefix + (int(model.config.num_register_tokens) if self.registers else 0)

    def known(self, ending: str) -> type[Any]:
        """A class of this family as transformers defines it."""
        return getattr(sys.modules[self.module], self.stem + ending)  # type: ignore[no-any-return]

    def blocks_of(self, model: nn.Module) -> nn.ModuleList:
        """The blocks of a model."""
        return reduce(getattr, self.blocks.split("."), model)  # type: ignore[return-value]

    def container_of(self, model: nn.Module) -> nn.Module | None:
        """The module between the model and its blocks, which the model calls; None where it calls the blocks."""
        outer, inner, _ = self.blocks.partition(".")
        return getattr(model, outer) if inner else None


def modeling(package: str) -> str:
    """Name of the module of a modeling file."""
    return f"transformers.models.{package}.modeling_{package}"
