"""CATIS: score tokens by unary signals, then protect, merge or evict them (SPEC 4)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, get_args

from torch import Tensor

from catis.core.arrays import TorchArrays, arrays_for
from catis.core.method import BlockShape, Method
from catis.core.plan import Plan
from catis.core.signals import activation, euclidean, fuse, l2, momentum
from catis.core.view import BlockView
from catis.methods import triage
from catis.native.decide import decide_catis
from catis.native.library import Kernels

__all__ = ["Catis"]

Signal = Literal["fused", "cls", "nf", "l2", "euclidean"]
Strategy = Literal["triage", "evict", "merge", "global"]
_STRATEGIES = {
    "triage": triage.plan_triage,
    "evict": triage.plan_evict,
    "merge": triage.plan_merge,
    "global": triage.plan_global,
}
_NORMS = {"fused": activation, "cls": activation, "nf": activation, "l2": l2, "euclidean": euclidean}


@dataclass(frozen=True)
class Catis(Method):
    """Complementary activation triage with importance scoring.

    The defaults of Theta are a rough hand choice, not a result (SPEC 4): the paper gives no numbers.

    Attributes:
        gamma: Momentum of the CLS attention over depth, >= 0.
        w_cls: Weight of the CLS signal in the fusion, in [0, 1].
        tau: Triage radius in standard deviations, >= 0: protect above tau, evict below -tau, merge between.
        evict_ratio: Share of r that eviction may take, in [0, 1].
        l_start: First block that uses the CLS signal; before it the score is s_nf alone.
        signal: "fused", or one of "cls", "nf", "l2", "euclidean" alone.
        strategy: "triage"; "evict" (the lowest r go), "merge" (the lowest r merge into their best match), "global"
            (evict from E, then ToMe's matching over all that is left).

    Example:
        >>> import catis, timm
        >>> model = catis.apply(timm.create_model("vit_tiny_patch16_224"), "catis", r=8, tau=0.8)
    """

    name: ClassVar[str] = "catis"
    gamma: float = 0.5
    w_cls: float = 0.5
    tau: float = 1.0
    evict_ratio: float = 0.5
    l_start: int = 2
    signal: Signal = "fused"
    strategy: Strategy = "triage"

    def __post_init__(self) -> None:
        """Check Theta and the switches."""
        _within("gamma", self.gamma, 0.0, math.inf)
        _within("w_cls", self.w_cls, 0.0, 1.0)
        _within("tau", self.tau, 0.0, math.inf)
        _within("evict_ratio", self.evict_ratio, 0.0, 1.0)
        if isinstance(self.l_start, bool) or not isinstance(self.l_start, int) or self.l_start < 0:
            raise ValueError(f"l_start={self.l_start!r}: expected a block index >= 0")
        for option, value, allowed in (("signal", self.signal, Signal), ("strategy", self.strategy, Strategy)):
            if value not in get_args(allowed):
                raise ValueError(f"{option}={value!r}: expected one of {list(get_args(allowed))}")

    def plan(self, view: BlockView) -> Plan:
        """Score, then triage."""
        if view.kernels is not None and self.strategy == "triage" and self.signal in ("fused", "cls", "nf"):
            return self._compiled(view.kernels, view)
        xp = arrays_for(view.features)
        attention = self.observe(view)
        score, notes = self._score(xp, view, attention)
        evictions = math.floor(self.evict_ratio * view.r)
        found = _STRATEGIES[self.strategy](xp, score, view, self.tau, evictions)
        return Plan(found.keep, found.removed, found.target, found.all_merge, cls_attention=attention, notes=notes)

    def macs(self, shape: BlockShape) -> int:
        """The unary signals, and matching inside M (at most all tokens)."""
        tokens = shape.num_patches + shape.num_prefix
        uses_cls = shape.has_cls and self.signal in ("fused", "cls") and shape.layer + 1 >= self.l_start
        context = tokens * shape.num_heads**2 * shape.head_dim if uses_cls else 0  # block-diagonal
        activation = 3 * shape.num_patches * shape.width if self.signal in ("fused", "nf") else 0
        if self.strategy == "evict":
            return context + activation
        pairs = shape.r * (shape.num_patches - shape.r) * shape.head_dim
        matching = pairs if self.strategy == "merge" else shape.matching_macs
        return context + activation + matching

    def _compiled(self, kernels: Kernels, view: BlockView) -> Plan:
        """The same in one call."""
        observed = self._observes(view)
        in_context = observed and view.layer >= self.l_start
        by_norm = self.signal != "cls" or not in_context
        found = decide_catis(
            kernels,
            view.features,
            (view.query, view.key, view.content_key),
            (view.bias, view.previous_cls if in_context else None),
            view.num_prefix,
            (view.r, math.floor(self.evict_ratio * view.r)),
            (view.scale, self.gamma, self.w_cls, self.tau),
            (observed, by_norm, in_context),
            view.explain,
        )
        attention, norm, context, score = found.scores
        notes = {}
        if view.explain:
            notes = self._notes(TorchArrays, norm if by_norm else None, context if in_context else None, score)
        return Plan(*found[:3], cls_attention=attention, notes=notes)

    def observe(self, view: BlockView) -> Tensor | None:
        """A_cls of this block where this or the next one needs it."""
        return view.cls_attention() if self._observes(view) else None

    def _observes(self, view: BlockView) -> bool:
        return view.has_cls and self.signal in ("fused", "cls") and view.layer + 1 >= self.l_start

    def _score(self, xp: Any, view: BlockView, attention: Tensor | None) -> tuple[Any, dict[str, Tensor]]:
        """The fused functional of Eq. fusion, or the one signal asked for, and notes for a trace."""
        context = None
        if attention is not None and view.layer >= self.l_start:
            previous = None if view.previous_cls is None else xp.read(view.previous_cls)
            context = momentum(xp.read(attention), previous, self.gamma)
        if self.signal == "cls" and context is not None:
            parts: tuple[Any, Any, Any] = (None, *fuse(xp, context, None, 0.0)[::2])
        else:
            norm = xp.read(_NORMS[self.signal](view.patch_features()))
            parts = fuse(xp, norm, context, self.w_cls)
        return parts[2], self._notes(xp, *parts) if view.explain else {}

    def _notes(self, xp: Any, norm: Any, context: Any, score: Any) -> dict[str, Tensor]:
        """What went into the score, and the triage radius of each image."""
        threshold = xp.full((score.shape[0],), self.tau, score)
        found = {"s_nf": norm, "s_cls": context, "score": score, "threshold": threshold}
        return {name: xp.write(array) for name, array in found.items() if array is not None}


def _within(option: str, value: float, low: float, high: float) -> None:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not low <= value <= high or math.isinf(value):
        raise ValueError(f"{option}={value!r}: expected a number in [{low:g}, {high:g}]")
