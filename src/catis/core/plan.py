"""A Plan says which patch tokens of a block stay, merge or go; it is all that a method decides."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Literal

import torch
from torch import Tensor

from catis.core.record import record

EVICTED = -1
"""Target of a removed token that merges into nothing, and provenance of a patch that is gone."""

Blend = Literal["size", "mean", "weight", "mlerp", "mlerp_dst", "max"]
"""How the members of a group become one vector.

`size`: mean weighted by token size. `mean`: plain mean. `weight`: mean weighted by `Plan.weight`.
`mlerp`: direction of the plain mean, length of the longest member. `mlerp_dst`: the plain mean divided by the
destination's own length, times the longest (what ToFu's public code computes). `max`: elementwise maximum.
"""
_MEANS = ("size", "mean", "weight")


@record
class Plan:
    """Which of the N_p patch tokens survive, and what becomes of the others.

    Indices count patch tokens only: prefix tokens (CLS, distillation, registers) always stay in front, untouched.
    `keep` and `removed` together hold every index once. Shapes depend on N_p and r alone, never on the image.

    Attributes:
        keep: (B, K) tokens that survive, in output order.
        removed: (B, R) tokens that go.
        target: (B, R) position in `keep` that each removed token merges into, or EVICTED; None when all are evicted.
        all_merge: Whether no target is EVICTED; saves the executor the masks.
        blend: How merged vectors are averaged.
        weight: (B, N_p) weights, for blend "weight".
        restore_norm: Whether a mean gets the mean norm of its members: vectors that point apart have a short mean.
        cls_attention: (B, N_p) A_cls of this block, for the executor to carry to the next one; None if not wanted.
        into: (B, R) the token whose position `target` is, or EVICTED; None where the method does not know it.
        notes: What the method saw (scores, thresholds), each (B, N_p) or (B,), for traces and pictures.

    Example:
        >>> plan = Plan(torch.tensor([[0, 2]]), torch.tensor([[1]]), torch.tensor([[0]]))
        >>> plan.num_kept, plan.slots().tolist()
        (2, [[0, 0, 1]])
    """

    keep: Tensor
    removed: Tensor
    target: Tensor | None = None
    all_merge: bool = False
    blend: Blend = "size"
    weight: Tensor | None = None
    restore_norm: bool = False
    cls_attention: Tensor | None = None
    into: Tensor | None = None
    notes: Mapping[str, Tensor] = field(default_factory=dict)

    @property
    def num_kept(self) -> int:
        """Patch tokens that survive."""
        return self.keep.shape[1]

    @property
    def restores(self) -> bool:
        """Whether merged vectors are means that get a norm; other blends have a rule of their own for it."""
        return self.restore_norm and self.blend in _MEANS

    def kept_rows(self, num_prefix: int) -> Tensor:
        """(B, P + K) rows of a whole sequence that survive, prefix first."""
        if not num_prefix:
            return self.keep
        prefix = torch.arange(num_prefix, device=self.keep.device).expand(self.keep.shape[0], -1)
        return torch.cat([prefix, self.keep + num_prefix], -1)

    def slots(self) -> Tensor:
        """(B, N_p) where each token is afterwards: its index in `keep`, or EVICTED."""
        batch, kept = self.keep.shape
        slots = self.keep.new_full((batch, kept + self.removed.shape[1]), EVICTED)
        slots = slots.scatter(1, self.keep, torch.arange(kept, device=self.keep.device).expand(batch, -1))
        return slots if self.target is None else slots.scatter(1, self.removed, self.target)
