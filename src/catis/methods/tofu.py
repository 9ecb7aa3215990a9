"""ToFu: prune in the first half, merge norm-preserving in the second (Kim et al., 2024)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from catis.core.method import BlockShape, Method
from catis.core.plan import Blend, Plan
from catis.core.schedule import Schedule
from catis.core.view import BlockView
from catis.methods.tome import check_ratio, plan_bipartite, ratio_amount

__all__ = ["ToFu"]


@dataclass(frozen=True)
class ToFu(Method):
    """Token Fusion: ToMe's matching; blocks 0 .. L/2 evict the sources, later blocks merge them by MLERP.

    Attributes:
        reference: Merge as the public code does: the mean divided by the destination's own length, sizes never
            updated (so proportional attention has no effect).
        ratio: With `reference`, keep this share of all tokens (CLS counted) in every block; needed there.
        late: With `reference`, what late blocks do: "tofu" (DeiT patch) or "mean" (MAE patch).

    Example:
        >>> ToFu().strategy(layer=6, depth=12), ToFu().strategy(layer=7, depth=12)
        ('prune', 'mlerp')
    """

    name: ClassVar[str] = "tofu"
    reference: bool = False
    ratio: float | None = None
    late: Literal["tofu", "mean"] = "tofu"

    def __post_init__(self) -> None:
        """Check the options."""
        check_ratio(self.ratio, self.reference)
        if self.late not in ("tofu", "mean"):
            raise ValueError(f"late={self.late!r}: expected 'tofu' or 'mean'")

    @property
    def own_amounts(self) -> bool:
        """Whether a ratio decides the amounts."""
        return self.ratio is not None

    @property
    def proportional(self) -> bool:
        """The public code never updates sizes, so its proportional attention does nothing."""
        return not self.reference

    @property
    def weighs_pool(self) -> bool:
        """Without sizes there is nothing to weigh by."""
        return not self.reference

    def amount(self, schedule: Schedule, layer: int, num_patches: int, num_prefix: int) -> int:
        """Budget contract, or the ratio rule in reference mode."""
        if self.ratio is None:
            return schedule.amount(layer, num_patches)
        return ratio_amount(self.ratio, num_patches + num_prefix, num_patches, num_prefix)

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
