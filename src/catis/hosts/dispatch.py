"""Finds the Vision Transformer in a model, and the host adapter it belongs to."""

from __future__ import annotations

import sys
from typing import Any

from torch import nn

from catis.errors import UnsupportedModelError
from catis.hosts.host import Host
from catis.hosts.timm_host import TimmHost

__all__ = ["example_shape", "find", "hosts"]


def hosts() -> list[Host]:
    """The adapters that can be used here. Without transformers imported there is no model of it, and no need for it."""
    found: list[Host] = [TimmHost()]
    if "transformers" in sys.modules:
        from catis.hosts.hf_host import HfHost

        found.append(HfHost())
    return found


def find(model: Any) -> tuple[nn.Module, Host]:
    """The Vision Transformer in a model (the model itself, or the only one inside it), and its host.

    Raises:
        UnsupportedModelError: None or several were found.
    """
    if not isinstance(model, nn.Module):
        raise UnsupportedModelError(f"expected a torch.nn.Module, got {type(model).__name__}: {model!r:.60}")
    found = [
        (name, module, host) for host in hosts() for name, module in model.named_modules() if host.recognises(module)
    ]
    if len(found) == 1:
        return found[0][1:]
    if not found:
        supported = "; ".join(host.supported for host in hosts())
        raise UnsupportedModelError(f"no Vision Transformer found in {type(model).__name__}. Supported: {supported}.")
    names = ", ".join(name for name, _, _ in found)
    raise UnsupportedModelError(
        f"{type(model).__name__} holds {len(found)} Vision Transformers ({names}): pass the one you mean"
    )


def example_shape(model: nn.Module, batch: int) -> tuple[int, ...]:
    """Input shape that a timm or transformers model is made for, batch first."""
    target, _ = find(model)
    config: Any = getattr(target, "config", None)
    if config is None:
        patches: Any = target.patch_embed
        return (batch, patches.proj.in_channels, *patches.img_size)
    size = config.image_size
    frames = (config.num_frames,) if hasattr(config, "num_frames") else ()
    return (batch, *frames, config.num_channels, *((size, size) if isinstance(size, int) else size))
