"""Muon for many small matrices on a CPU: torch.optim.Muon, but all matrices of one shape in one batch.

The library's version works through them one by one in bfloat16, which costs more than the backward pass of
a model this narrow. Same update, same state names, so checkpoints fit both.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor

COEFFICIENTS = (3.4445, -4.7750, 2.0315)


def orthogonalise(batch: Tensor, steps: int = 5) -> Tensor:
    """Push the singular values of every matrix (B, n, m), n <= m, towards 1 by Newton-Schulz iteration."""
    a, b, c = COEFFICIENTS
    x = batch / (batch.flatten(1).norm(dim=1).clamp_min(1e-7)[:, None, None])
    for _ in range(steps):
        gram = torch.bmm(x, x.mT)
        x = a * x + torch.bmm(b * gram + c * torch.bmm(gram, gram), x)
    return x


class BatchedMuon(torch.optim.Optimizer):
    """Momentum, orthogonalised, scaled so that AdamW's learning rates fit; decoupled weight decay."""

    def __init__(self, params: Iterable[Tensor], lr: float = 1e-3, weight_decay: float = 0.05, momentum: float = 0.95):
        super().__init__(params, {"lr": lr, "weight_decay": weight_decay, "momentum": momentum})

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        """Update all parameters that have a gradient."""
        for group in self.param_groups:
            shapes: dict[tuple[int, ...], list[Tensor]] = {}
            for p in group["params"]:
                if p.grad is not None:
                    shapes.setdefault(tuple(p.shape), []).append(p)
            for params in shapes.values():
                self._update(params, group)

    def _update(self, params: list[Tensor], group: dict[str, Any]) -> None:
        momentum, lr = group["momentum"], group["lr"]
        pushes = []
        for p in params:
            state = self.state[p]
            if "momentum_buffer" not in state:
                state["momentum_buffer"] = torch.zeros_like(p)
            buffer = state["momentum_buffer"].lerp_(p.grad, 1 - momentum)
            pushes.append(p.grad.lerp(buffer, momentum))
        stacked = torch.stack(pushes)
        tall = stacked.shape[1] > stacked.shape[2]
        flat = orthogonalise(stacked.mT if tall else stacked)
        flat = flat.mT if tall else flat
        size = 0.2 * max(stacked.shape[1:]) ** 0.5
        for p, push in zip(params, flat, strict=True):
            p.mul_(1 - lr * group["weight_decay"]).add_(push, alpha=-lr * size)
