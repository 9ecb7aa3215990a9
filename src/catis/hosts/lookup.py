"""Finds the Vision Transformer in a model and the host that knows it, or the reason why there is none."""

from __future__ import annotations

import sys
from functools import cache
from importlib.metadata import entry_points
from typing import Any, TypeVar

from torch import nn

from catis.errors import UnsupportedModelError
from catis.hosts.handle import Handle
from catis.hosts.timm_handle import TimmHandle

GROUP = "catis.hosts"
HostT = TypeVar("HostT", bound=type[Handle])
_REGISTERED: list[type[Handle]] = []

_GRID = "attention in windows of a fixed grid: tokens cannot leave it"
_PAIRS = "a bias for every pair of positions of the full grid"
_PYRAMID = "convolutions between its stages need the full grid"
_MASKS = "its blocks carry masks of their own from block to block"

REFUSED = {
    "timm": {
        "SwinTransformer": _GRID,
        "SwinTransformerV2": _GRID,
        "MaxxVit": _GRID,
        "VisionTransformerSAM": _GRID,
        "Hiera": "attention in windows that shrink with the grid",
        "Beit": _PAIRS,
        "VisionTransformerRelPos": _PAIRS,
        "PyramidVisionTransformerV2": _PYRAMID,
        "NaFlexVit": _MASKS,
        "Cait": "its last blocks attend from the CLS token alone",
        "Xcit": "attention between channels, not tokens",
    },
    "transformers": {
        "SwinModel": _GRID,
        "Swinv2Model": _GRID,
        "SamVisionEncoder": _GRID,
        "BeitModel": _PAIRS,
        "TimesformerModel": "divided attention: over space and over time in turn, on a fixed grid of frames",
        "DPTModel": "a read-out in the middle of its own encoder; a DPT with a DINOv2 backbone is taken",
        "PixtralVisionModel": "images packed into one sequence under one mask of the full length",
        "SegformerModel": _PYRAMID,
        "HieraModel": "attention in windows that shrink with the grid",
    },
}
"""Models that people ask for and catis refuses: library -> class -> why; by name, so that none is imported."""


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


def reason(model: nn.Module) -> str | None:
    """The first refused class in a model, with the reason; None if there is none that we have a word on.

    Example:
        >>> import timm
        >>> reason(timm.create_model("beit_base_patch16_224"))
        'timm Beit: a bias for every pair of positions of the full grid'
    """
    for module in model.modules():
        for base in type(module).__mro__:
            library = base.__module__.partition(".")[0]
            if base.__name__ in REFUSED.get(library, {}):
                return f"{library} {base.__name__}: {REFUSED[library][base.__name__]}"
    return None
