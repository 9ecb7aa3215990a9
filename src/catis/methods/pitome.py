"""PiToMe: protect tokens of low energy, merge those with many look-alikes (Tran et al., 2024)."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from catis.core.matching import best_edges
from catis.core.method import BlockShape, Method
from catis.core.order import order_by
from catis.core.plan import Plan
from catis.core.rows import take_rows
from catis.core.view import BlockView


@dataclass(frozen=True)
class PiToMe(Method):
    """Energy-ordered merging.

    Tokens are ordered by energy, the mean of ELU(cosine - margin) over all patch tokens, where
    margin = `margin` * (1 - l / L). Two variants split that order: "bsm" alternates all tokens and keeps the r best
    edges; "pure" alternates the first 2r only and merges every one of its r sources.

    Attributes:
        margin: Margin of block 0.
        order: Which variant comes first: "deit" (bsm, then pure) or "mae" (pure, then bsm).

    Example:
        >>> [PiToMe().variant(block, depth=4) for block in range(4)]
        ['bsm', 'bsm', 'pure', 'pure']
    """

    name: ClassVar[str] = "pitome"
    margin: float = 0.75
    order: Literal["deit", "mae"] = "deit"

    def __post_init__(self) -> None:
        """Check the options."""
        if self.order not in ("deit", "mae"):
            raise ValueError(f"order={self.order!r}: expected 'deit' or 'mae'")
        if not math.isfinite(self.margin):
            raise ValueError(f"margin={self.margin!r}: expected a finite number")

    def margin_at(self, block: int, depth: int) -> float:
        """Margin of a block: it falls to zero over the depth."""
        return self.margin - self.margin * block / depth

    def variant(self, block: int, depth: int) -> Literal["bsm", "pure"]:
        """Which split this block uses."""
        first_half = block < math.ceil(depth / 2)
        return "bsm" if first_half == (self.order == "deit") else "pure"

    def macs(self, shape: BlockShape) -> int:
        """All pairs for the energy, and the matching of its variant."""
        bsm = self.variant(shape.block, shape.depth) == "bsm"
        matching = shape.matching_macs if bsm else shape.r**2 * shape.head_dim
        return shape.num_patches**2 * shape.head_dim + matching

    def plan(self, view: BlockView) -> Plan:
        """Order by energy, split, match on keys, merge by size-weighted mean."""
        unit = view.unit_keys()
        scores = energy(unit, self.margin_at(view.block, view.depth))
        split = plan_pure if self.variant(view.block, view.depth) == "pure" else plan_bsm
        plan = split(unit, order_by(scores, descending=True), view.r)
        return replace(plan, notes=energy_notes(scores, view.r)) if view.explain else plan


def energy(unit: Tensor, margin: float) -> Tensor:
    """(B, N_p) mean over tokens of ELU(cosine - margin) of unit keys: high where a token has many look-alikes."""
    similarity = torch.baddbmm(unit.new_full((), -margin), unit, unit.transpose(1, 2))
    return F.elu(similarity).mean(-1)


def energy_notes(scores: Tensor, r: int) -> dict[str, Tensor]:
    """The energies, and the lowest of the 2r that "pure" would merge."""
    return {"score": scores, "threshold": scores.sort(-1, descending=True).values[:, 2 * r - 1]}


def plan_bsm(unit: Tensor, order: Tensor, r: int) -> Plan:
    """ToMe's selection on the energy order; output [surviving A by descending similarity, B]."""
    matching = best_edges(_cosine_of_sides(unit, order), r)
    side_a, side_b = order[:, ::2], order[:, 1::2]
    survivor = side_a.gather(1, matching.survivor)
    target = matching.destination + survivor.shape[1]
    return Plan(torch.cat([survivor, side_b], -1), side_a.gather(1, matching.source), target, all_merge=True)


def plan_pure(unit: Tensor, order: Tensor, r: int) -> Plan:
    """The 2r tokens of highest energy merge pairwise; the rest is protected; output [protected, B]."""
    pairs, protected = order[:, : 2 * r], order[:, 2 * r :]
    target = _cosine_of_sides(unit, pairs).argmax(-1) + protected.shape[1]
    return Plan(torch.cat([protected, pairs[:, 1::2]], -1), pairs[:, ::2], target, all_merge=True)


def _cosine_of_sides(unit: Tensor, order: Tensor) -> Tensor:
    """(B, |A|, |B|) cosine between even and odd places of an order."""
    ordered = take_rows(unit, order)
    return torch.bmm(ordered[:, ::2], ordered[:, 1::2].transpose(1, 2))
