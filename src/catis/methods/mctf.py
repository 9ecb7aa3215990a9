"""MCTF: multi-criteria (similarity, informativeness, size) bidirectional fusion (Lee et al., 2024)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import torch
from torch import Tensor

from catis.core.matching import alternate, best_edges, cosine_sides, side_ids, token_ids
from catis.core.method import BlockShape, Method
from catis.core.plan import Blend, Plan
from catis.core.rows import take_rows
from catis.core.view import BlockView, unit_length

Pooling = Literal["attention", "size", "max", "mean"]
BLENDS: dict[Pooling, Blend] = {"attention": "weight", "size": "size", "max": "max", "mean": "mean"}


@dataclass(frozen=True)
class MCTF(Method):
    """Multi-criteria token fusion. Needs the whole attention map, so each reducing block runs attention twice.

    Attributes:
        tau_sim: Temperature of similarity; 0 switches it off, as for the other two.
        tau_info: Temperature of informativeness (attention received).
        tau_size: Temperature of size.
        bidirectional: Match A to B with half of r, then B to the surviving A with the other half.
        pooling: Weights of a group: "attention" (received, times size), "size", "max" (elementwise), "mean".

    Example:
        >>> import catis, timm
        >>> model = catis.apply(timm.create_model("vit_tiny_patch16_224"), "mctf", r=8)
    """

    name: ClassVar[str] = "mctf"
    tau_sim: float = 1.0
    tau_info: float = 20.0
    tau_size: float = 40.0
    bidirectional: bool = True
    pooling: Pooling = "attention"

    def __post_init__(self) -> None:
        """Check the options."""
        for option in ("tau_sim", "tau_info", "tau_size"):
            if not 0.0 <= getattr(self, option) < float("inf"):
                raise ValueError(f"{option}={getattr(self, option)!r}: expected a number >= 0 (0 switches it off)")
        if self.pooling not in BLENDS:
            raise ValueError(f"pooling={self.pooling!r}: expected one of {list(BLENDS)}")

    def macs(self, shape: BlockShape) -> int:
        """The attention map a second time, and matching on the full width."""
        tokens = shape.num_patches + shape.num_prefix
        attention_map = tokens**2 * shape.num_heads * shape.head_dim
        return attention_map + shape.matching_macs // shape.head_dim * shape.width

    def plan(self, view: BlockView) -> Plan:
        """Score pairs on the residual stream, match both ways, pool by attention received times size."""
        received = view.attention_received()
        plan = self.fuse(view.patch_residual(), received, view.size, view.num_prefix, view.r)
        return replace(plan, notes=self.notes(view, received)) if view.explain else plan

    def weight(self, view: BlockView) -> Tensor | None:
        """Attention received times size."""
        return pooling_weight(view.attention_received(), view.size)

    def fuse(self, tokens: Tensor, received: Tensor, size: Tensor | None, num_prefix: int, r: int) -> Plan:
        """Plan from (B, N_p, C) tokens, (B, N_p) attention received and sizes."""
        scores = multi_criteria(tokens, received, size, num_prefix, (self.tau_sim, self.tau_info, self.tau_size))
        first, second = self.directions(r)
        keep, removed, target = bidirectional_plan(scores, first, second, num_prefix)
        return Plan(keep, removed, target, True, BLENDS[self.pooling], pooling_weight(received, size))

    def directions(self, r: int) -> tuple[int, int]:
        """How many of r go from A to B, and how many from B to A."""
        first = r // 2 if self.bidirectional else r
        return first, r - first

    def notes(self, view: BlockView, received: Tensor) -> dict[str, Tensor]:
        """Attention received, and a stand-in for the cut: the r-th best W over both sides' best edges."""
        taus = (self.tau_sim, self.tau_info, self.tau_size)
        scores = multi_criteria(view.patch_residual(), received, view.size, view.num_prefix, taus)
        both = torch.cat([scores.amax(2), scores.amax(1)], 1)
        return {"score": received, "threshold": both.sort(-1, descending=True).values[:, view.r - 1]}


def pooling_weight(received: Tensor, size: Tensor | None) -> Tensor:
    """(B, N_p) attention received times size; a group that nobody attends to is averaged evenly."""
    weight = received if size is None else received * size
    return weight.clamp_min(torch.finfo(weight.dtype).tiny)


def multi_criteria(
    tokens: Tensor, received: Tensor, size: Tensor | None, num_prefix: int, taus: tuple[float, float, float]
) -> Tensor:
    """(B, |A|, |B|) W_sim * W_info * W_size: high for alike, uninformative, small pairs (docs/methods.md, MCTF).

    The authors divide 1/a and 1/s by their maximum; that scales all pairs of an image alike, so it is left out.
    """
    tau_sim, tau_info, tau_size = taus
    scores = (cosine_sides(unit_length(tokens), num_prefix) + 1) / 2
    scores = scores.pow(1 / tau_sim) if tau_sim else torch.ones_like(scores)
    side_a, side_b = alternate(num_prefix)
    for tau, amount in ((tau_info, received), (tau_size, size)):
        if tau and amount is not None:
            inverse = amount.to(scores.dtype).clamp_min(torch.finfo(scores.dtype).tiny).pow(-1 / tau)
            scores = scores * inverse[:, side_a, None] * inverse[:, None, side_b]
    return scores


def bidirectional_plan(scores: Tensor, r1: int, r2: int, num_prefix: int) -> tuple[Tensor, Tensor, Tensor]:
    """A gives its r1 best edges to B, then B its r2 best to the surviving A; the same scores serve both.

    Returns:
        keep, removed, target of a Plan; output order is [surviving A as in ToMe, surviving B best score first],
        and plain [surviving A, B] when r2 is 0. A token merged into a B token that then merges too follows it.
    """
    _, num_a, num_b = scores.shape
    side_a, side_b = alternate(num_prefix)
    first = best_edges(scores, r1)
    stay_a = first.survivor.sort(-1).values if num_prefix else first.survivor  # ToMe's order
    removed, num_stay = token_ids(first.source, side_a), stay_a.shape[1]
    if not r2:
        keep = torch.cat([token_ids(stay_a, side_a), side_ids(side_b, num_a + num_b, stay_a)], -1)
        return keep, removed, first.destination + num_stay
    second = best_edges(take_rows(scores, stay_a).transpose(1, 2), r2)
    slot_b = _slots_of_b(second.survivor, second.source, second.destination, num_stay)
    keep = torch.cat([token_ids(stay_a, side_a), token_ids(second.survivor, side_b)], -1)
    removed = torch.cat([removed, token_ids(second.source, side_b)], -1)
    return keep, removed, torch.cat([slot_b.gather(1, first.destination), second.destination], -1)


def _slots_of_b(survivor: Tensor, source: Tensor, destination: Tensor, num_a: int) -> Tensor:
    """(B, |B|) output place of every B token: behind the surviving A, or that of the A token it merges into."""
    place = torch.arange(num_a, num_a + survivor.shape[1], device=survivor.device).expand_as(survivor)
    slot = torch.cat([place, destination], -1)
    return slot.scatter(1, torch.cat([survivor, source], -1), slot)
