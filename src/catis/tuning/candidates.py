"""What the search may choose: a candidate as plain numbers, and the reduction at the budget that it stands for."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from typing import Any

from catis.core.budget import BUDGET_METHOD, SHAPE, fit_shape, removed_from, scale_to_budget
from catis.core.method import Method
from catis.core.per_block import PerBlock
from catis.core.reduction import Reduction
from catis.core.schedule import Schedule
from catis.hosts import Handle
from catis.hosts.cost import ModelCost
from catis.registry import create_method

LEVERS = ("schedule", "operator", "theta", "weights", "gain", "size", "calibration")
"""What can be chosen, and switched off: tokens kept per block, method per block, options of CATIS, weights inside a
group, gain of the size term, input size, calibrated weights."""
OPERATORS = ("cluster", "catis", "mctf", "tome", "pitome", "tofu")
SAME_SHARE = (1.0, 1.0, 1.0, 1.0, 1.0)
SHAPES: dict[str, tuple[float, ...]] = {
    "same share": SAME_SHARE,
    "rising": (0.5, 0.75, 1.0, 1.25, 1.5),
    "falling": (1.5, 1.25, 1.0, 0.75, 0.5),
    "spared start": (0.2, 1.2, 1.2, 1.0, 0.8),
    "middle": (0.3, 0.9, 2.0, 1.0, 0.5),
    "before the middle": SHAPE,
}
"""Shapes to start from: how fast tokens go at five places from the first block to the last."""

THETAS: tuple[dict[str, Any], ...] = ({}, {"w_cls": 0.8, "gamma": 0.25, "l_start": 4})
"""Options of CATIS to start from."""


@dataclass(frozen=True)
class Candidate:
    """One choice; by default what `catis.apply(model, budget=...)` does, with tokens going in all blocks."""

    method: str = BUDGET_METHOD  # name of the method
    options: Mapping[str, Any] = field(default_factory=dict)  # of the method
    # How fast tokens go, at equally spaced places over the depth; only their proportions matter.
    shape: tuple[float, ...] = SHAPE
    kept: tuple[int, ...] = ()  # patch tokens that leave each block, in place of a shape
    others: tuple[tuple[int, str], ...] = ()  # blocks that use another method, and its name
    gain: tuple[float, float] | None = None  # of the size term, first and last block; None for the method's own
    soften: float | None = None  # how much softer attention gets as tokens go; None for the method's own
    restore_norm: bool | None = None  # whether merged tokens get a norm; None for the method's own
    size: int | None = None  # side of the input; None for the model's own

    @property
    def gains(self) -> tuple[float, float]:
        """The gain of the first block and of the last, or those of the method."""
        method = create_method(self.method)
        return (method.size_gain(0.0), method.size_gain(1.0)) if self.gain is None else self.gain

    @property
    def softens(self) -> float:
        """How much softer attention gets, or what the method does."""
        return create_method(self.method).soften if self.soften is None else self.soften

    def to_json(self) -> dict[str, Any]:
        """Plain data, for the record of what was tried."""
        told: dict[str, Any] = {"method": self.method, "options": dict(self.options), "gain": self.gain}
        told |= {"soften": self.soften, "restore_norm": self.restore_norm, "size": self.size}
        others = {str(block): name for block, name in self.others}
        return {**told, "shape": list(self.shape), "kept": list(self.kept), "others": others}


@dataclass(frozen=True)
class Space:
    """The candidates of one model at one budget."""

    handle: Handle  # on the model
    budget: float  # multiply-adds, as a share of the vanilla model's at its own input size

    @cached_property
    def head_only(self) -> bool:
        """Whether the last block may leave out the patch tokens."""
        return not self.handle.reads_patches()

    @cached_property
    def limit(self) -> float:
        """Multiply-adds that the budget allows."""
        return self.budget * self.handle.cost().macs(self.handle.facts.num_prefix)

    @property
    def depth(self) -> int:
        """Blocks of the model."""
        return self.handle.facts.depth

    def reduction(self, candidate: Candidate) -> Reduction:
        """The reduction that a candidate stands for, bound to the model, at the budget.

        Raises:
            ValueError: No amount of removal reaches the budget, or the model cannot be fed that size.
        """
        method = self._method(candidate)
        switches: dict[str, Any] = {"soften": candidate.soften, "restore_norm": candidate.restore_norm}
        built = Reduction(
            method, head_only=self.head_only, size_gain=self._gain(candidate), input_size=candidate.size, **switches
        )
        removed = removed_from(self.patches(candidate.size), self.kept(candidate))
        return self.handle.bind(replace(built, schedule=Schedule.parse(removed)))

    def patches(self, size: int | None) -> int:
        """Patch tokens of an input of this side."""
        return self._cost(size).num_patches

    def kept(self, candidate: Candidate) -> list[int]:
        """Patch tokens that leave each block, as many as the budget allows."""
        facts, cost = self.handle.facts, self._cost(candidate.size)
        patches = cost.num_patches

        def macs(kept: Sequence[int]) -> float:
            return cost.macs(facts.num_prefix, kept, self.head_only)

        if candidate.kept:
            return scale_to_budget(macs, self.limit, patches, candidate.kept)
        return fit_shape(macs, self.limit, patches, facts.depth, candidate.shape, last=not self.head_only)

    def moved(self, candidate: Candidate, block: int, more: int) -> Candidate | None:
        """The same with more tokens after one block, or fewer, then scaled to the budget; None if tokens came back."""
        kept = [count + more if place == block else count for place, count in enumerate(self.kept(candidate))]
        if self.head_only:
            kept[-1] = kept[-2]
        falls = all(0 < now <= before for before, now in pairwise(kept))
        return replace(candidate, kept=tuple(kept)) if falls else None

    def counts(self, reduction: Reduction) -> list[int]:
        """Patch tokens that leave each block under a reduction."""
        patches = self.patches(reduction.input_size)
        return list(reduction.token_counts(self.depth, patches, self.handle.facts.num_prefix))

    def constant_r(self, size: int | None = None) -> int | None:
        """The fewest tokens that meet the budget when every block removes as many; None if none do."""
        facts, cost = self.handle.facts, self._cost(size)
        for r in range(cost.num_patches // 2 + 1):
            if cost.macs(facts.num_prefix, self._counts(r, size), self.head_only) <= self.limit:
                return r
        return None

    def constant(self, size: int | None = None) -> tuple[int, ...]:
        """Tokens that leave each block under `constant_r`; empty if there is none."""
        r = self.constant_r(size)
        return () if r is None else tuple(self._counts(r, size))

    def _counts(self, r: int, size: int | None) -> list[int]:
        return Schedule(r).token_counts(self.depth, self.patches(size))

    def _cost(self, size: int | None) -> ModelCost:
        """What an input of this side costs."""
        return self.handle.cost(None if size is None else (size, size))

    def _gain(self, candidate: Candidate) -> tuple[float, ...] | None:
        """The gain of every block, from the first to the last in equal steps; rounded, so that recipes can be read."""
        if candidate.gain is None:
            return None
        first, last = candidate.gain
        return tuple(round(first + (last - first) * block / max(self.depth - 1, 1), 3) for block in range(self.depth))

    def _method(self, candidate: Candidate) -> Method:
        method = create_method(candidate.method, **candidate.options)
        if not candidate.others:
            return method
        others = {block: create_method(name) for block, name in candidate.others}
        return PerBlock(tuple(others.get(block, method) for block in range(self.depth)))


def variants(candidate: Candidate, levers: Collection[str]) -> list[Candidate]:
    """A candidate and the same with other options: Theta of CATIS, weights inside a group, norm of a group."""
    made = [candidate]
    if candidate.method == "catis" and "theta" in levers:
        made = [replace(candidate, options=theta) for theta in THETAS]
    if "weights" in levers and candidate.method in ("cluster", "mctf", "tome", "catis"):
        other = "size" if candidate.method in ("cluster", "mctf") else "attention"
        made += [replace(c, options={**c.options, "pooling": other}) for c in made]
    if "weights" in levers and candidate.method != "tofu":  # which has a rule of its own for the norm
        restored = not create_method(candidate.method).restore_norm
        made += [replace(c, restore_norm=restored) for c in made]
    return made
