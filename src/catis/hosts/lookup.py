"""Finds the Vision Transformer in a model, and the host that knows it."""

from __future__ import annotations

import sys
from functools import cache
from importlib.metadata import entry_points
from typing import Any, TypeVar

from torch import nn

from catis.errors import UnsupportedModelError
from catis.hosts.handle import Handle
from catis.hosts.refused import reason
from catis.hosts.timm_handle import TimmHandle

GROUP = "catis.hosts"
HostT = TypeVar("HostT", bound=type[Handle])
_REGISTERED: list[type[Handle]] = []


def register(host: HostT) -> HostT:
    """Let `find` know a host of your own, for this process; a class decorator.

    A package that brings a host names it in its entry-point group `catis.hosts` instead.
    """
    if host not in _REGISTERED:
        _REGISTERED.append(host)
    return host


@cache
def _installed() -> tuple[type[Handle], ...]:
    return tuple(point.load() for point in entry_points(group=GROUP))


def known_hosts() -> list[type[Handle]]:
    """All hosts that can be used here; that of transformers once it is imported, since before there is no model of it.

    Example:
        >>> [host.__name__ for host in known_hosts()][0]
        'TimmHandle'
    """
    if "transformers" not in sys.modules:
        return [TimmHandle, *_installed(), *_REGISTERED]
    from catis.hosts.hf_handle import HfHandle

    return [TimmHandle, HfHandle, *_installed(), *_REGISTERED]


def find(model: Any) -> Handle:
    """A handle on the Vision Transformer in a model: the model itself, or the only one inside it.

    Raises:
        UnsupportedModelError: None or several were found.

    Example:
        >>> import timm
        >>> find(timm.create_model("vit_tiny_patch16_224")).facts
        ModelFacts(depth=12, num_prefix=1, has_cls=True, windowed=())
    """
    if not isinstance(model, nn.Module):
        raise UnsupportedModelError(f"expected a torch.nn.Module, got {type(model).__name__}: {model!r:.60}")
    hosts = known_hosts()
    handles = {
        name: host(model, module) for host in hosts for name, module in model.named_modules() if host.recognises(module)
    }
    if len(handles) == 1:
        return handles.popitem()[1]
    if not handles:
        supported, why = "; ".join(host.supported for host in hosts), reason(model)
        nothing = f"no Vision Transformer found in {type(model).__name__}" + ("" if why is None else f" ({why})")
        raise UnsupportedModelError(f"{nothing}. Supported: {supported}.")
    raise UnsupportedModelError(
        f"{type(model).__name__} holds {len(handles)} Vision Transformers ({', '.join(handles)}): pass the one you mean"
    )
