"""Who listens to the modules of a model: forward and pre-forward hooks, and how they are called where catis runs a part
of a module in its place.
"""

from __future__ import annotations

from torch import nn
from torch.nn.modules.module import _has_any_global_hook

__all__ = ["is_hooked", "is_watched"]


def is_watched(module: nn.Module) -> bool:
    """Whether somebody listens to a module or to any module inside it, or to all modules of the process.

    Example:
        >>> block = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
        >>> is_watched(block)
        False
        >>> hook = block[1].register_forward_hook(lambda module, inputs, output: None)
        >>> is_watched(block), is_hooked(block)
        (True, False)
    """
    return bool(_has_any_global_hook()) or _is_hooked_inside(module)  # type: ignore[no-untyped-call]


def is_hooked(module: nn.Module) -> bool:
    """Whether somebody listens to this very module, or to all modules of the process."""
    return _has_hooks(module) or bool(_has_any_global_hook())  # type: ignore[no-untyped-call]


def _has_hooks(module: nn.Module) -> bool:
    return bool(
        module._forward_hooks or module._forward_pre_hooks or module._backward_hooks or module._backward_pre_hooks
    )


def _is_hooked_inside(module: nn.Module) -> bool:
    # By hand: `module.modules()` keeps a set and makes names, and every forward call asks this.
    if _has_hooks(module):
        return True
    return any(_is_hooked_inside(child) for child in module._modules.values() if child is not None)
