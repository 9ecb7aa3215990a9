"""The one seam to code that is faster than PyTorch's operations; the core knows what it does, not what it is."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

import torch
from torch import Tensor

from catis.core.plan import Plan

if TYPE_CHECKING:
    from catis.core.method import Method
    from catis.core.state import TokenState
    from catis.core.view import BlockView


class Moved(NamedTuple):
    """Tokens after a plan, and what the executor computes with them."""

    tokens: Tensor  # (B, P + K, C) prefix and surviving patch tokens
    size: Tensor | None  # (B, K) sizes, or None while all are 1
    cls_attention: Tensor | None  # (B, K) A_cls carried through the plan, or None
    # (B, 1, 1, P + K) logarithm of the sizes, 0 for the prefix; None where nobody has computed it.
    log_size: Tensor | None = None
    size_column: Tensor | None = None  # (B, P + K, 1) sizes, 1 for the prefix, in an exported graph


class Accelerator(Protocol):
    """Decides and executes in place of PyTorch's operations, with the same result; a host hands it to `run_blocks`.

    Either function may answer None, "not mine": then PyTorch does it. No gradient is asked of it.
    """

    def decide(self, method: Method, view: BlockView) -> Plan | None:
        """What `method.plan(view)` returns."""

    def execute(self, plan: Plan, x: Tensor, state: TokenState) -> Moved | None:
        """(B, N, C) tokens after the plan."""


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
