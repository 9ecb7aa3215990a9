"""Who listens to the modules of a model: the question that decides what may be left out of a forward pass."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import nn
from torch.nn.modules import module as torch_module
from torch.nn.modules.module import _has_any_global_hook

# transformers keeps hooks of its own on every block once hidden states were asked for. They write into whatever call is
# under way, which under reduction is that of the model around; catis collects hidden states itself.
_RECORDERS = "transformers.utils.output_capturing"
_TRACKER = "torch.utils.module_tracker"


def is_watched(module: nn.Module) -> bool:
    """Whether somebody listens to a module or to any module inside it, or to all modules of the process.

    torch's own tracker of module names, which FlopCounterMode sets, reads no tokens and does not count.

    Example:
        >>> block = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
        >>> is_watched(block)
        False
        >>> hook = block[1].register_forward_hook(lambda module, inputs, output: None)
        >>> is_watched(block), is_hooked(block)
        (True, False)
    """
    return _listens_everywhere() or _is_hooked_inside(module)


def is_hooked(module: nn.Module) -> bool:
    """Whether somebody listens to this very module, or to all modules of the process."""
    return has_hooks(module) or bool(_has_any_global_hook())  # type: ignore[no-untyped-call]


def has_hooks(module: nn.Module) -> bool:
    """Whether a user has put a hook of any kind on this very module."""
    if module._forward_pre_hooks or module._backward_hooks or module._backward_pre_hooks:
        return True
    return bool(module._forward_hooks) and bool(forward_hooks(module))


def forward_hooks(module: nn.Module) -> list[tuple[int, Callable[..., Any]]]:
    """The forward hooks that a user has put on a module."""
    hooks = module._forward_hooks.items()
    return [(key, hook) for key, hook in hooks if getattr(hook, "__module__", None) != _RECORDERS]


def _listens_everywhere() -> bool:
    if not _has_any_global_hook():  # type: ignore[no-untyped-call]
        return False
    if torch_module._global_backward_hooks or torch_module._global_backward_pre_hooks:
        return True
    hooks = (*torch_module._global_forward_pre_hooks.values(), *torch_module._global_forward_hooks.values())
    return any(getattr(hook, "__module__", None) != _TRACKER for hook in hooks)


def _is_hooked_inside(module: nn.Module) -> bool:
    # By hand: `module.modules()` keeps a set and makes names, and every forward call asks this.
    if has_hooks(module):
        return True
    return any(_is_hooked_inside(child) for child in module._modules.values() if child is not None)
