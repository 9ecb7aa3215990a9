"""ToMe: merge the r most similar token pairs of an even/odd split, weighted by size (Bolya et al., 2023)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from catis.core.arrays import arrays_for
from catis.core.matching import alternate, best_edges, cosine_sides, side_ids, token_ids
from catis.core.method import BlockShape, Method
from catis.core.plan import Blend, Plan
from catis.core.schedule import Schedule, budget
from catis.core.view import BlockView

__all__ = ["ToMe", "plan_bipartite", "ratio_amount"]


@dataclass(frozen=True)
class ToMe(Method):
    """Token Merging.

    Attributes:
        reference: Behave as the authors' code does also where we do better: average pools are not weighted by size.
        ratio: With `reference`, the amount rule of the ToMe copy in PiToMe's repository: keep this share of all
            tokens, CLS included, in every block, with no proportional attention and no 50 % cap.

    Example:
        >>> import catis, timm
        >>> model = catis.apply(timm.create_model("vit_tiny_patch16_224"), "tome", r=8)
    """

    name: ClassVar[str] = "tome"
    reference: bool = False
    ratio: float | None = None

    def __post_init__(self) -> None:
        """Check the options."""
        check_ratio(self.ratio, self.reference)

    @property
    def own_amounts(self) -> bool:
        """Whether a ratio decides the amounts."""
        return self.ratio is not None

    @property
    def proportional(self) -> bool:
        """The copy in PiToMe's repository calls attention without sizes."""
        return self.ratio is None

    @property
    def weighs_pool(self) -> bool:
        """The authors' timm patch does not weigh average pools."""
        return not self.reference

    def amount(self, schedule: Schedule, layer: int, num_patches: int, num_prefix: int) -> int:
        """Budget contract, or the ratio rule in reference mode."""
        if self.ratio is None:
            return schedule.amount(layer, num_patches)
        return ratio_amount(self.ratio, num_patches + num_prefix, num_patches, num_prefix)

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
    scores = cosine_sides(view.unit_keys(), view.num_prefix)
    xp = arrays_for(scores)
    matching = best_edges(xp, scores, view.r)
    side_a, side_b = alternate(view.num_prefix)
    survivor = xp.sort(matching.survivor) if view.num_prefix else matching.survivor
    keep = xp.join(token_ids(survivor, side_a), side_ids(xp, side_b, view.num_patches, survivor))
    target = None if blend is None else xp.write(matching.destination + survivor.shape[1])
    notes = _notes(scores, view) if view.explain else {}
    removed = xp.write(token_ids(matching.source, side_a))
    return Plan(xp.write(keep), removed, target, True, blend or "size", notes=notes)


def _notes(scores: Tensor, view: BlockView) -> dict[str, Tensor]:
    """Best similarity of every A token, and that of the weakest edge taken."""
    best = scores.amax(-1)
    weakest = best.sort(-1, descending=True).values[:, view.r - 1]
    return {"score": spread_side(best, alternate(view.num_prefix)[0], view.num_patches), "threshold": weakest}


def spread_side(values: Tensor, side: slice, num_patches: int) -> Tensor:
    """(B, N_p) values of a side at their tokens; NaN where a token has none."""
    spread = values.new_full((values.shape[0], num_patches), float("nan"))
    spread[:, side] = values
    return spread


def ratio_amount(ratio: float, counted: int, num_patches: int, num_prefix: int) -> int:
    """floor(T - T * ratio), the amount rule of PiToMe's repository; refuses what would merge the CLS token away."""
    r = math.floor(counted - counted * ratio)
    if r > budget(r, num_patches):
        raise ValueError(
            f"ratio={ratio} removes {r} of {num_patches} patch tokens (+{num_prefix} prefix) in one block; at most "
            "half can merge (the authors' code would merge the CLS token away here): use a larger ratio"
        )
    return r


def check_ratio(ratio: float | None, reference: bool) -> None:
    """A ratio belongs to a reference mode, and lies in (0, 1]."""
    if ratio is not None and not (reference and 0.0 < ratio <= 1.0):
        raise ValueError(f"ratio={ratio!r} with reference={reference}: expected a share in (0, 1] and reference=True")
