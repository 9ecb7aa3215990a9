"""PiToMe: protect tokens of low energy, merge those with many look-alikes (Tran et al., 2024)."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from catis.core.arrays import arrays_for
from catis.core.matching import best_edges
from catis.core.method import BlockShape
from catis.core.plan import Plan
from catis.core.rows import take_rows
from catis.core.view import BlockView
from catis.methods.ratio import RatioMethod
from catis.native.decide import decide_pitome

__all__ = ["PiToMe", "energy"]


@dataclass(frozen=True)
class PiToMe(RatioMethod):
    """Energy-ordered merging.

    Tokens are ordered by energy, the mean of ELU(cosine - margin) over all patch tokens, where
    margin = `margin` * (1 - l / L). Two variants split that order: "bsm" alternates all tokens and keeps the r best
    edges; "pure" alternates the first 2r only and merges every one of its r sources.

    Attributes:
        margin: Margin of block 0.
        order: Which variant comes first: "deit" (bsm, then pure) or "mae" (pure, then bsm).
        reference: As the authors' code: no proportional attention, no size-weighted pool; needs `ratio`.
        ratio: With `reference`, keep this share of the patch tokens in every block.

    Example:
        >>> [PiToMe().variant(layer, depth=4) for layer in range(4)]
        ['bsm', 'bsm', 'pure', 'pure']
    """

    name: ClassVar[str] = "pitome"
    counts_prefix: ClassVar[bool] = False
    margin: float = 0.75
    order: Literal["deit", "mae"] = "deit"

    def __post_init__(self) -> None:
        """Check the options."""
        super().__post_init__()
        if self.order not in ("deit", "mae"):
            raise ValueError(f"order={self.order!r}: expected 'deit' or 'mae'")
        if not math.isfinite(self.margin):
            raise ValueError(f"margin={self.margin!r}: expected a finite number")

    @property
    def proportional(self) -> bool:
        """The authors' patches call attention without sizes."""
        return not self.reference

    def variant(self, layer: int, depth: int) -> Literal["bsm", "pure"]:
        """Which split this block uses."""
        first_half = layer < math.ceil(depth / 2)
        return "bsm" if first_half == (self.order == "deit") else "pure"

    def macs(self, shape: BlockShape) -> int:
        """All pairs for the energy, and the matching of its variant."""
        bsm = self.variant(shape.layer, shape.depth) == "bsm"
        matching = shape.matching_macs if bsm else shape.r**2 * shape.head_dim
        return shape.num_patches**2 * shape.head_dim + matching

    def plan(self, view: BlockView) -> Plan:
        """Order by energy, split, match on keys, merge by size-weighted mean."""
        margin = self.margin - self.margin * view.layer / view.depth
        pure = self.variant(view.layer, view.depth) == "pure"
        if view.kernels is not None:
            found = decide_pitome(view.kernels, view.content_key, view.num_prefix, view.r, margin, pure)
            plan, scores = Plan(*found[:3], all_merge=True), found.scores[0]
        else:
            unit = view.unit_keys()
            scores = energy(unit, margin)
            xp = arrays_for(scores)
            order = xp.order(xp.read(scores), descending=True)
            plan = (plan_pure if pure else plan_bsm)(xp, unit, order, view.r)
        if not view.explain:
            return plan
        cut = scores.sort(-1, descending=True).values[:, 2 * view.r - 1]
        return replace(plan, notes={"score": scores, "threshold": cut})


def energy(unit: Tensor, margin: float) -> Tensor:
    """(B, N_p) mean over tokens of ELU(cosine - margin): high where a token has many look-alikes.

    Args:
        unit: (B, N_p, d) keys of unit length.
        margin: Similarity below which a pair counts against.
    """
    similarity = torch.baddbmm(unit.new_full((), -margin), unit, unit.transpose(1, 2))
    return F.elu(similarity, inplace=True).mean(-1)


def plan_bsm(xp: Any, unit: Tensor, order: Any, r: int) -> Plan:
    """ToMe's selection on the energy order; output [surviving A by descending similarity, B]."""
    similarity = _sides(xp, unit, order)
    matching = best_edges(xp, similarity, r)
    side_a, side_b = order[:, ::2], order[:, 1::2]
    survivor = xp.take(side_a, matching.survivor)
    target = xp.write(matching.destination + survivor.shape[1])
    keep, removed = xp.write(xp.join(survivor, side_b)), xp.write(xp.take(side_a, matching.source))
    return Plan(keep, removed, target, all_merge=True)


def plan_pure(xp: Any, unit: Tensor, order: Any, r: int) -> Plan:
    """The 2r tokens of highest energy merge pairwise; the rest is protected; output [protected, B]."""
    pairs, protected = order[:, : 2 * r], order[:, 2 * r :]
    partner = xp.read(_sides(xp, unit, pairs).argmax(-1))
    keep, removed = xp.write(xp.join(protected, pairs[:, 1::2])), xp.write(pairs[:, ::2])
    return Plan(keep, removed, xp.write(partner + protected.shape[1]), all_merge=True)


def _sides(xp: Any, unit: Tensor, order: Any) -> Tensor:
    """(B, |A|, |B|) cosine between even and odd places of an order."""
    ordered = take_rows(unit, xp.write(order))
    return torch.bmm(ordered[:, ::2], ordered[:, 1::2].transpose(1, 2))
