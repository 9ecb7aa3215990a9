"""The transformers adapter: recognises, checks, installs and removes."""

from __future__ import annotations

from types import MethodType
from typing import Any

from torch import Tensor, nn

from catis.core.block import Recorder
from catis.core.reduction import Reduction
from catis.hosts import hf_check, hf_cost, hf_model
from catis.hosts.hf_families import Family, family_of
from catis.hosts.hf_model import ReducedHf
from catis.hosts.host import ModelCost, ModelFacts

__all__ = ["HfHost"]


class HfHost:
    """transformers' vision models."""

    supported = hf_check.SUPPORTED

    def recognises(self, module: nn.Module) -> bool:
        """Whether it is a vision model class we know."""
        return family_of(type(module)) is not None

    def facts(self, model: nn.Module) -> ModelFacts:
        """Check every part that reduction touches, on the plain class."""
        return hf_check.inspect(
            model, model.catis_base if isinstance(model, ReducedHf) else type(model), _family(model)
        )

    def reduction(self, model: nn.Module) -> Reduction | None:
        """Settings on the model."""
        return vars(model).get("catis_reduction")

    def cost(self, model: nn.Module, input_size: tuple[int, ...] | None) -> ModelCost:
        """Sizes for counting multiply-adds."""
        return hf_cost.cost(model, _family(model), input_size)

    def install(self, model: nn.Module, settings: Reduction) -> None:
        """Swap the class for its reduced subclass; a reduction that removes nothing leaves the class as it is."""
        self.uninstall(model)
        vars(model)["catis_reduction"] = settings
        if not settings.is_vanilla:
            plain: Any = type(model)
            _set_class(model, hf_model.reduced_class(plain))

    def uninstall(self, model: nn.Module) -> None:
        """Swap the class back."""
        vars(model).pop("catis_reduction", None)
        if isinstance(model, ReducedHf):
            _set_class(model, model.catis_base)

    def watch(self, model: nn.Module, inputs: Tensor, record: Recorder) -> Any:
        """Run with a recorder."""
        settings = self.reduction(model)
        assert settings is not None
        return hf_model.run(model, settings, {"pixel_values": inputs}, {}, record)


def _family(model: nn.Module) -> Family:
    family = family_of(type(model))
    assert family is not None
    return family


def _set_class(model: nn.Module, kind: type[nn.Module]) -> None:
    """Change the class, also in the bound method that accelerate keeps on an instance it has hooked."""
    model.__class__ = kind
    for name in ("forward", "_old_forward"):
        if isinstance(vars(model).get(name), MethodType):
            vars(model)[name] = MethodType(kind.forward, model)
