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


def _none(model: Any) -> tuple[int, ...]:
    return ()


def _nothing(model: Any) -> str | None:
    return None


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
        num_prefix: Prefix tokens of a model.
        has_cls: Whether token 0 is a CLS token.
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
    num_prefix: Callable[[Any], int]
    has_cls: bool = True
    model: str = "Model"
    block: str = "Layer"
    attention: str = "Attention"
    packed: bool = False
    windowed: Callable[[Any], tuple[int, ...]] = _none
    taken: Callable[[Any], tuple[int, ...]] = _none
    backbone: bool = False
    block_returns: Convention = PLAIN
    refuses: Callable[[Any], str | None] = _nothing

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


def no_prefix(model: Any) -> int:
    """Prefix tokens of a model that has none."""
    return 0


def cls(model: Any) -> int:
    """Prefix tokens of a model with CLS."""
    return 1


def cls_and_distillation(model: Any) -> int:
    """Prefix tokens of a model with CLS and distillation token."""
    return 2


def cls_and_registers(model: Any) -> int:
    """Prefix tokens of a model with CLS and registers."""
    return 1 + int(model.config.num_register_tokens)
