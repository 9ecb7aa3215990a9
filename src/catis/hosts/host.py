"""What an adapter to a model library offers the rest of catis."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

from torch import Tensor, nn

from catis.core.block import Recorder
from catis.core.method import Reduction

__all__ = ["Host", "ModelFacts"]


@dataclass(frozen=True)
class ModelFacts:
    """What the core must know of a model.

    Attributes:
        depth: Number of blocks.
        num_prefix: Prefix tokens: CLS, distillation, registers.
        has_cls: Whether token 0 is a CLS token.
    """

    depth: int
    num_prefix: int
    has_cls: bool


class Host(Protocol):
    """One model library. Hosts keep no state: settings live on the model, forward state in the call."""

    supported: str

    def recognises(self, module: nn.Module) -> bool:
        """Whether this module is a Vision Transformer of this library, plain or reduced."""

    def facts(self, model: nn.Module) -> ModelFacts:
        """Depth and prefix; raises UnsupportedModelError where a part is not as we know it."""

    def reduction(self, model: nn.Module) -> Reduction | None:
        """The settings on the model, None if it is plain."""

    def install(self, model: nn.Module, settings: Reduction) -> None:
        """Put settings on a model that `facts` accepted, replacing any that are there."""

    def uninstall(self, model: nn.Module) -> None:
        """Make a reduced model the plain one again; a plain one is left alone."""

    def watch(self, model: nn.Module, inputs: Tensor, record: Recorder) -> Any:
        """Forward pass of a reduced model with a recorder on every block; returns what the model returns."""
