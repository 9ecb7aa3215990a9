"""Whether operations are carried out, or only written down for later."""

from __future__ import annotations

import torch

__all__ = ["is_eager"]


def is_eager() -> bool:
    """False while a graph is being made: torch.compile, torch.export, torch.jit.trace.

    Example:
        >>> is_eager()
        True
    """
    return not (
        torch.compiler.is_compiling() or torch.compiler.is_exporting() or torch._C._get_tracing_state() is not None
    )
