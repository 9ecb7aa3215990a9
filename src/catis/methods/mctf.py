"""MCTF: multi-criteria (similarity, informativeness, size) bidirectional fusion (Lee et al., 2024)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import torch
from torch import Tensor

from catis.core.arrays import arrays_for
from catis.core.matching import alternate, best_edges, cosine_sides, side_ids, token_ids
from catis.core.method import BlockShape, Method
from catis.core.parts import BlockParts
from catis.core.plan import Blend, Plan
from catis.core.reduction import Reduction
from catis.core.rows import take_rows
from catis.core.schedule import Schedule
from catis.core.state import TokenState
from catis.core.view import BlockView, unit_length
from catis.methods import mctf_reference
from catis.native.decide import decide_mctf
from catis.native.library import Kernels

__all__ = ["MCTF", "bidirectional_plan", "multi_criteria"]

Pooling = Literal["attention", "size", "max", "mean"]
_BLENDS: dict[Pooling, Blend] = {"attention": "weight", "size": "size", "max": "max", "mean": "mean"}


@dataclass(frozen=True)
class MCTF(Method):
    """Multi-criteria token fusion. Needs the whole attention map, so each reducing block runs attention twice.

    Attributes:
        tau_sim: Temperature of similarity; 0 switches it off, as for the other two.
        tau_info: Temperature of informativeness (attention received).
        tau_size: Temperature of size.
        bidirectional: Match A to B with half of r, then B to the surviving A with the other half.
        pooling: Weights of a group: "attention" (received, times size), "size", "max" (elementwise), "mean".
        reference: As the authors' code: reduction before attention, blocks 1 .. L-1, never below 10 tokens.
        one_step_ahead: With `reference`: 1 reuses the aggregated map on the merged tokens, 2 recomputes attention,
            0 reduces at the end of the block.
        layers: With `reference`, the blocks that reduce; None is 1 .. L-1.

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
    reference: bool = False
    one_step_ahead: int = 1
    layers: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        """Check the options."""
        for option in ("tau_sim", "tau_info", "tau_size"):
            if not 0.0 <= getattr(self, option) < float("inf"):
                raise ValueError(f"{option}={getattr(self, option)!r}: expected a number >= 0 (0 switches it off)")
        if self.pooling not in _BLENDS:
            raise ValueError(f"pooling={self.pooling!r}: expected one of {list(_BLENDS)}")
        if self.one_step_ahead not in (0, 1, 2):
            raise ValueError(f"one_step_ahead={self.one_step_ahead!r}: expected 0, 1 or 2")
        if not self.reference and (self.layers is not None or self.one_step_ahead != 1):
            raise ValueError("layers and one_step_ahead belong to the authors' form: set reference=True")

    def amount(self, schedule: Schedule, layer: int, num_patches: int, num_prefix: int) -> int:
        """Budget contract; in reference mode the authors' rule."""
        if not self.reference:
            return schedule.amount(layer, num_patches)
        if layer == 0 if self.layers is None else layer not in self.layers:
            return 0
        return mctf_reference.amount(schedule, layer, num_patches + num_prefix)

    def check(self, num_prefix: int, depth: int) -> None:
        """The authors' form protects a CLS token only."""
        if self.reference and num_prefix > 1:
            raise ValueError(
                f"mctf in reference mode protects one prefix token, but this model has {num_prefix}: the authors' code "
                "would merge the others; leave reference=False"
            )

    def macs(self, shape: BlockShape) -> int:
        """The attention map a second time, and matching on the full width."""
        tokens = shape.num_patches + shape.num_prefix
        attention_map = tokens**2 * shape.num_heads * shape.head_dim
        return attention_map + shape.matching_macs // shape.head_dim * shape.width

    def plan(self, view: BlockView) -> Plan:
        """Score pairs on the residual stream, match both ways, pool by attention received times size."""
        received = view.attention_received()
        if view.kernels is not None and self.tau_sim in (0.0, 1.0):
            plan = self._compiled(view.kernels, view, received)
        else:
            plan = self.fuse(view.patch_residual(), received, view.size, view.num_prefix, view.r)
        return replace(plan, notes=self._notes(view, received)) if view.explain else plan

    def _notes(self, view: BlockView, received: Tensor) -> dict[str, Tensor]:
        """Attention received, and a stand-in for the cut: the r-th best W over both sides' best edges."""
        taus = (self.tau_sim, self.tau_info, self.tau_size)
        scores = multi_criteria(view.patch_residual(), received, view.size, view.num_prefix, taus)
        both = torch.cat([scores.amax(2), scores.amax(1)], 1)
        return {"score": received, "threshold": both.sort(-1, descending=True).values[:, view.r - 1]}

    def _compiled(self, kernels: Kernels, view: BlockView, received: Tensor) -> Plan:
        """`fuse` in one call."""
        r1 = self._first(view.r)
        powers = (-1 / self.tau_info if self.tau_info else 0.0, -1 / self.tau_size if self.tau_size else 0.0)
        amounts = (r1, view.r - r1)
        found = decide_mctf(
            kernels, view.residual, received, view.size, view.num_prefix, amounts, self.tau_sim != 0, powers
        )
        return Plan(*found[:3], True, _BLENDS[self.pooling], found.scores[0])

    def _first(self, r: int) -> int:
        """How many of r the first direction takes."""
        return r // 2 if self.bidirectional else r

    def fuse(self, tokens: Tensor, received: Tensor, size: Tensor | None, num_prefix: int, r: int) -> Plan:
        """Plan from (B, N_p, C) tokens, (B, N_p) attention received and sizes."""
        scores = multi_criteria(tokens, received, size, num_prefix, (self.tau_sim, self.tau_info, self.tau_size))
        r1 = self._first(r)
        keep, removed, target = bidirectional_plan(scores, r1, r - r1, num_prefix)
        weight = received if size is None else received * size
        weight = weight.clamp_min(torch.finfo(weight.dtype).tiny)  # a group that nobody attends to is averaged evenly
        return Plan(keep, removed, target, True, _BLENDS[self.pooling], weight)

    def run_block(
        self, parts: BlockParts, x: Tensor, state: TokenState, layer: int, settings: Reduction
    ) -> tuple[Tensor, TokenState, Plan | None] | None:
        """The authors' block, in reference mode."""
        if not self.reference:
            return None
        return mctf_reference.run_block(self.fuse, self.one_step_ahead, parts, x, state, layer, settings)


def multi_criteria(
    tokens: Tensor, received: Tensor, size: Tensor | None, num_prefix: int, taus: tuple[float, float, float]
) -> Tensor:
    """(B, |A|, |B|) W_sim * W_info * W_size: high for alike, uninformative, small pairs (BASELINES 1.4).

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
    (_, num_a, num_b), xp = scores.shape, arrays_for(scores)
    side_a, side_b = alternate(num_prefix)
    first = best_edges(xp, scores, r1)
    stay_a = xp.sort(first.survivor) if num_prefix else first.survivor  # ToMe's order
    removed = token_ids(first.source, side_a)
    if not r2:
        keep = xp.join(token_ids(stay_a, side_a), side_ids(xp, side_b, num_a + num_b, stay_a))
        return xp.write(keep), xp.write(removed), xp.write(first.destination + stay_a.shape[1])
    back = take_rows(scores, xp.write(stay_a)).transpose(1, 2)
    second = best_edges(xp, back, r2)
    new_b = xp.repeat_rows(xp.arange(stay_a.shape[1], stay_a.shape[1] + num_b - r2, 1, stay_a), stay_a)
    slot_b = xp.put(xp.join(second.survivor, second.source), second.survivor, new_b)
    slot_b = xp.put(slot_b, second.source, second.destination)
    keep = xp.join(token_ids(stay_a, side_a), token_ids(second.survivor, side_b))
    removed = xp.join(removed, token_ids(second.source, side_b))
    target = xp.join(xp.take(slot_b, first.destination), second.destination)
    return xp.write(keep), xp.write(removed), xp.write(target)
