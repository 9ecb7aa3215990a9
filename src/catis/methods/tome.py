"""ToMe: merge the r most similar token pairs of an even/odd split, weighted by size (Bolya et al., 2023)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from catis.core.matching import alternate, best_edges, cosine_sides, side_ids, token_ids
from catis.core.method import BlockShape, Method
from catis.core.order import ascending
from catis.core.plan import Blend, Plan
from catis.core.view import BlockView
from catis.methods.pooling import Pooling, attention_macs, attention_weight, check_pooling, pooled


@dataclass(frozen=True)
class ToMe(Method):
    """Token Merging.

    Attributes:
        pooling: Weights inside a group: "size", or "attention" (of the CLS token, times size).

    Example:
        >>> import catis, timm
        >>> model = catis.apply(timm.create_model("vit_tiny_patch16_224"), "tome", r=8)
    """

    name: ClassVar[str] = "tome"
    pooling: Pooling = "size"

    def __post_init__(self) -> None:
        """Check the options."""
        check_pooling(self.pooling)

    @property
    def needs_cls(self) -> bool:
        """Whether groups are weighed by its attention."""
        return self.pooling == "attention"

    def macs(self, shape: BlockShape) -> int:
        """Matching of two halves, and the CLS token's row where groups are weighed by it."""
        return shape.matching_macs + (attention_macs(shape) if self.pooling == "attention" else 0)

    def plan(self, view: BlockView) -> Plan:
        """Match on keys, merge into B by weighted mean."""
        return pooled(plan_bipartite(view, "size"), view, self.pooling)

    def weight(self, view: BlockView) -> Tensor | None:
        """A_cls times size, where groups are weighed by it."""
        return attention_weight(view) if self.pooling == "attention" else None


def plan_bipartite(view: BlockView, blend: Blend | None) -> Plan:
    """Match on keys; sources merge into B (or are evicted, when blend is None); output order is [surviving A, B].

    Surviving A tokens come in ascending order when there is a prefix and by descending similarity when there is none:
    the next block's split is positional, so the authors' order is part of the method.
    """
    scores = cosine_sides(view.unit_keys(), view.num_prefix)
    matching = best_edges(scores, view.r)
    side_a, side_b = alternate(view.num_prefix)
    survivor = ascending(matching.survivor) if view.num_prefix else matching.survivor
    keep = torch.cat([token_ids(survivor, side_a), side_ids(side_b, view.num_patches, survivor)], -1)
    removed = token_ids(matching.source, side_a)
    target = None if blend is None else matching.destination + survivor.shape[1]
    best = _spread_side(scores.amax(-1), side_a, view.num_patches) if view.explain else None
    return Plan(keep, removed, target, True, blend or "size", notes=similarity_notes(best, view.r))


def similarity_notes(best: Tensor | None, r: int) -> dict[str, Tensor]:
    """Best similarity of every A token (NaN for B), and that of the weakest edge taken."""
    if best is None:
        return {}
    weakest = best.nan_to_num(float("-inf")).sort(-1, descending=True).values[:, r - 1]
    return {"score": best, "threshold": weakest}


def _spread_side(values: Tensor, side: slice, num_patches: int) -> Tensor:
    """(B, N_p) values of a side at their tokens; NaN where a token has none."""
    spread = values.new_full((values.shape[0], num_patches), float("nan"))
    spread[:, side] = values
    return spread
