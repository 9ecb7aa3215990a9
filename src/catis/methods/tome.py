"""ToMe: merge the r most similar token pairs of an even/odd split, weighted by size (Bolya et al., 2023)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from catis.core.arrays import arrays_for
from catis.core.matching import alternate, best_edges, cosine_sides, side_ids, token_ids
from catis.core.method import BlockShape
from catis.core.plan import Blend, Plan
from catis.core.view import BlockView
from catis.methods.ratio import RatioMethod
from catis.native.decide import decide_tome

__all__ = ["ToMe", "plan_bipartite"]


@dataclass(frozen=True)
class ToMe(RatioMethod):
    """Token Merging.

    In reference mode average pools are not weighted by size; with a ratio it is the ToMe copy in PiToMe's repository,
    which counts the CLS token and has no proportional attention.

    Example:
        >>> import catis, timm
        >>> model = catis.apply(timm.create_model("vit_tiny_patch16_224"), "tome", r=8)
    """

    name: ClassVar[str] = "tome"

    @property
    def proportional(self) -> bool:
        """The copy in PiToMe's repository calls attention without sizes."""
        return self.ratio is None

    def macs(self, shape: BlockShape) -> int:
        """Matching of two halves."""
        return shape.matching_macs

    def plan(self, view: BlockView) -> Plan:
        """Match on keys, merge into B by size-weighted mean."""
        return plan_bipartite(view, "size")


def plan_bipartite(view: BlockView, blend: Blend | None) -> Plan:
    """Match on keys; sources merge into B (or are evicted, when blend is None); output order is [surviving A, B].

    Surviving A tokens come in ascending order when there is a prefix and by descending similarity when there is none:
    the next block's split is positional, so the authors' order is part of the method.
    """
    if view.kernels is not None:
        found = decide_tome(view.kernels, view.content_key, view.num_prefix, view.r, view.explain)
        notes = _notes(found.scores[0], view.r)
        return Plan(found.keep, found.removed, found.target if blend else None, True, blend or "size", notes=notes)
    scores = cosine_sides(view.unit_keys(), view.num_prefix)
    xp = arrays_for(scores)
    matching = best_edges(xp, scores, view.r)
    side_a, side_b = alternate(view.num_prefix)
    survivor = xp.sort(matching.survivor) if view.num_prefix else matching.survivor
    keep = xp.join(token_ids(survivor, side_a), side_ids(xp, side_b, view.num_patches, survivor))
    target = None if blend is None else xp.write(matching.destination + survivor.shape[1])
    notes = _notes(spread_side(scores.amax(-1), side_a, view.num_patches) if view.explain else None, view.r)
    removed = xp.write(token_ids(matching.source, side_a))
    return Plan(xp.write(keep), removed, target, True, blend or "size", notes=notes)


def _notes(best: Tensor | None, r: int) -> dict[str, Tensor]:
    """Best similarity of every A token (NaN for B), and that of the weakest edge taken."""
    if best is None:
        return {}
    weakest = best.nan_to_num(float("-inf")).sort(-1, descending=True).values[:, r - 1]
    return {"score": best, "threshold": weakest}


def spread_side(values: Tensor, side: slice, num_patches: int) -> Tensor:
    """(B, N_p) values of a side at their tokens; NaN where a token has none."""
    spread = values.new_full((values.shape[0], num_patches), float("nan"))
    spread[:, side] = values
    return spread
