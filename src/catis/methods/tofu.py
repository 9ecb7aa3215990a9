"""ToFu: prune in the first half, merge norm-preserving in the second (Kim et al., 2024)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from catis.core.method import BlockShape
from catis.core.plan import Blend, Plan
from catis.core.view import BlockView
from catis.methods.ratio import RatioMethod
from catis.methods.tome import plan_bipartite

__all__ = ["ToFu"]


@dataclass(frozen=True)
class ToFu(RatioMethod):
    """Token Fusion: ToMe's matching; blocks 0 .. L/2 evict the sources, later blocks merge them by MLERP.

    Attributes:
        reference: Merge as the public code does: the mean divided by the destination's own length, sizes never
            updated (so proportional attention has no effect).
        ratio: With `reference`, keep this share of all tokens (CLS counted) in every block.
        late: With `reference`, what late blocks do: "tofu" (DeiT patch) or "mean" (MAE patch).

    Example:
        >>> ToFu().strategy(layer=6, depth=12), ToFu().strategy(layer=7, depth=12)
        ('prune', 'mlerp')
    """

    name: ClassVar[str] = "tofu"
    late: Literal["tofu", "mean"] = "tofu"

    def __post_init__(self) -> None:
        """Check the options."""
        super().__post_init__()
        if self.late not in ("tofu", "mean"):
            raise ValueError(f"late={self.late!r}: expected 'tofu' or 'mean'")

    @property
    def proportional(self) -> bool:
        """The public code never updates sizes, so its proportional attention does nothing."""
        return not self.reference

    def strategy(self, layer: int, depth: int) -> Literal["prune", "mean", "mlerp", "mlerp_dst"]:
        """What this block does with the sources."""
        if layer <= depth // 2:
            return "prune"
        if self.late == "mean":
            return "mean"
        return "mlerp_dst" if self.reference else "mlerp"

    def macs(self, shape: BlockShape) -> int:
        """Matching of two halves."""
        return shape.matching_macs

    def plan(self, view: BlockView) -> Plan:
        """Match on keys, then evict or merge the sources, as the depth says."""
        strategy = self.strategy(view.layer, view.depth)
        blend: Blend | None = None if strategy == "prune" else strategy
        return plan_bipartite(view, blend)
