"""Whether operations are carried out one by one, or recorded and transformed by somebody who watches."""

from __future__ import annotations

import torch


def is_eager() -> bool:
    """False while a graph is made (torch.compile, torch.export, torch.jit.trace) or a torch.func transform runs.

    Example:
        >>> is_eager()
        True
        >>> torch.func.vmap(lambda row: row * is_eager())(torch.ones(2, 1)).tolist()
        [[0.0], [0.0]]
    """
    if torch.compiler.is_compiling() or torch.compiler.is_exporting():
        return False
    return torch._C._get_tracing_state() is None and torch._C._functorch.peek_interpreter_stack() is None
