"""How a reduction is put on a model: its class is swapped for a subclass, whose only state is a frozen Reduction.

Class and reduction pickle, deep-copy and replicate with the model; everything that a forward call needs travels through
its own arguments, so threads, checkpointing, compile and export see no shared state.

The subclass keeps the name and module of its base: transformers keys output recording, saved configurations and
pipelines by them, and a user finds the class he made.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import cache, wraps
from types import MethodType
from typing import TYPE_CHECKING, Any

import torch
from torch import nn
from torch.fx import Proxy

from catis.core.reduction import Reduction

if TYPE_CHECKING:
    from catis.hosts.installation import Installation

EXCHANGES = "catis_exchanges"
"""Attribute of a model that had calibrated weights: how often they were exchanged, counted before and after, so that it
is odd in the midst of it."""


_NOT_TRACED = (
    "symbolic tracing (torch.fx, create_feature_extractor) cannot follow a reduced model, whose shapes depend on the "
    "number of tokens; use forward hooks, forward_intermediates or torch.export, or call catis.remove(model) first"
)


class Reduced(nn.Module):
    """Mixed in before a model class, together with the methods that run the blocks under reduction."""

    catis_base: type[nn.Module]
    catis_host: type[Any]  # a Handle; transformers evaluates this annotation, where that name is not known
    catis_reduction: Reduction

    def extra_repr(self) -> str:
        """Say in the printed model that it is reduced, since the class name does not."""
        own, reduction = super().extra_repr(), vars(self).get("catis_reduction")
        if reduction is None:  # the model around the reduced one
            return own
        calibrated = ", calibrated" if "catis_calibrated" in vars(self) else ""
        return f"{own}{', ' if own else ''}catis={reduction}{calibrated}"

    def _load_from_state_dict(self, *args: Any, **kwargs: Any) -> None:
        """Refuse weights from a file while calibrated ones are on the model: `remove` would undo a part of them."""
        if "catis_calibrated" in vars(self):
            raise ValueError(
                "load_state_dict on a model with calibrated weights, whose old ones catis.remove is to give back: call "
                "catis.remove(model) first, load, then catis.apply"
            )
        super()._load_from_state_dict(*args, **kwargs)

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        """Pickle by the vanilla class, since this one is made at run time."""
        return _rebuild, (self.catis_base, self.catis_host), self.__dict__.copy()


@cache
def reduced_class(base: Any, host: type[Installation]) -> type[Reduced]:
    """The reduced subclass of a model class."""
    names = {name: getattr(base, name) for name in ("__module__", "__qualname__", "__doc__")}
    own = {"catis_base": base, "catis_host": host, **host.overrides(base), **names}
    return type(base.__name__, (Reduced, base), own)


def _rebuild(base: Any, host: type[Installation]) -> nn.Module:
    kind = reduced_class(base, host)
    return kind.__new__(kind)


def base_class(model: nn.Module) -> Any:
    """The vanilla class of a model, reduced or not."""
    return model.catis_base if isinstance(model, Reduced) else type(model)


def set_class(model: nn.Module, kind: type[nn.Module]) -> None:
    """Change the class, also in the bound method that accelerate keeps on an instance it has hooked."""
    if type(model) is kind:
        return
    model.__class__ = kind
    for name in ("forward", "_old_forward"):
        if isinstance(vars(model).get(name), MethodType):
            vars(model)[name] = MethodType(kind.forward, model)


def vanilla_unless_reduced(vanilla: Callable[..., Any], reduced: Callable[..., Any]) -> Callable[..., Any]:
    """A method that runs `reduced(model, reduction, ...)`, or the vanilla one where there is nothing to reduce.

    The reduction is read once, so that a call ends with the one it began with, whatever another thread puts on the
    model or takes off meanwhile. An empty batch has no tokens to choose from, and its result is vanilla's.
    """
    first = list(inspect.signature(vanilla).parameters)[1]

    @wraps(vanilla)  # with its signature, for those who inspect it (Trainer, torch.export)
    def method(model: Any, *args: Any, **kwargs: Any) -> Any:
        reduction = getattr(model, "catis_reduction", None)
        images = args[0] if args else kwargs.get(first)
        if isinstance(images, Proxy):
            raise ValueError(_NOT_TRACED)
        if reduction is None or reduction.is_vanilla or images is None or images.shape[0] == 0:
            return vanilla(model, *args, **kwargs)
        return with_the_same_weights(model, reduced, model, reduction, *args, **kwargs)

    return method


def with_the_same_weights(vit: nn.Module, call: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    """Make a call, and raise if another thread exchanges calibrated weights of the Vision Transformer meanwhile.

    A compiled call is not watched: what it reads of the model is read when it is compiled.
    """
    if torch.compiler.is_compiling():
        return call(*args, **kwargs)
    exchanges = vars(vit).get(EXCHANGES, 0)
    result = call(*args, **kwargs)
    if exchanges % 2 or vars(vit).get(EXCHANGES, 0) != exchanges:
        raise RuntimeError(
            f"another thread put calibrated weights on this {base_class(vit).__name__}, or took them off, during the "
            "call: some layers had old ones, some new ones. Call it again, and hold a lock around apply and remove"
        )
    return result
