"""The timm adapter: recognises, checks, installs and removes."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

from catis.core.block import Recorder
from catis.core.reduction import Reduction
from catis.hosts import timm_check, timm_cost, timm_model
from catis.hosts.host import ModelCost, ModelFacts
from catis.hosts.timm_model import ReducedTimm

__all__ = ["TimmHost"]


class TimmHost:
    """timm's VisionTransformer and Eva families."""

    supported = timm_check.SUPPORTED

    def recognises(self, module: nn.Module) -> bool:
        """Whether it is a timm class with blocks we know."""
        return timm_check.is_timm(module)

    def facts(self, model: nn.Module) -> ModelFacts:
        """Check every part that reduction touches, on the plain class."""
        return timm_check.inspect(model, model.catis_base if isinstance(model, ReducedTimm) else type(model))

    def reduction(self, model: nn.Module) -> Reduction | None:
        """Settings of a reduced model."""
        return model.catis_reduction if isinstance(model, ReducedTimm) else None

    def cost(self, model: nn.Module, input_size: tuple[int, ...] | None) -> ModelCost:
        """Count weights of the model's linear layers."""
        return timm_cost.cost(model, input_size)

    def install(self, model: nn.Module, settings: Reduction) -> None:
        """Swap the class for its reduced subclass."""
        if not isinstance(model, ReducedTimm):
            model.__class__ = timm_model.reduced_class(type(model))  # type: ignore[arg-type]
        model.__dict__["catis_reduction"] = settings

    def uninstall(self, model: nn.Module) -> None:
        """Swap the class back."""
        if isinstance(model, ReducedTimm):
            del model.__dict__["catis_reduction"]
            model.__class__ = model.catis_base  # type: ignore[assignment]

    def watch(self, model: nn.Module, inputs: Tensor, record: Recorder) -> Any:
        """Run with a recorder."""
        return timm_model.run(model, inputs, record)
