"""ToFu: prune in the first half, merge norm-preserving in the second (Kim et al., 2024)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from catis.core.method import BlockShape, Method
from catis.core.plan import Blend, Plan
from catis.core.view import BlockView
from catis.methods.tome import plan_bipartite


@dataclass(frozen=True)
class ToFu(Method):
    """Token Fusion: ToMe's matching; blocks 0 .. L/2 evict the sources, later blocks merge them by MLERP.

    Example:
        >>> ToFu().blend(block=6, depth=12), ToFu().blend(block=7, depth=12)
        (None, 'mlerp')
    """

    name: ClassVar[str] = "tofu"

    def blend(self, block: int, depth: int) -> Blend | None:
        """How this block merges the sources; None where it evicts them."""
        return None if block <= depth // 2 else "mlerp"

    def macs(self, shape: BlockShape) -> int:
        """Matching of two halves."""
        return shape.matching_macs

    def plan(self, view: BlockView) -> Plan:
        """Match on keys, then evict or merge the sources, as the depth says."""
        return plan_bipartite(view, self.blend(view.block, view.depth))
