"""CATIS: score tokens by unary signals, then protect, merge or evict them (docs/methods.md)."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import ClassVar, Literal, get_args

import torch
from torch import Tensor

from catis.core.method import BlockShape, Method
from catis.core.plan import Plan
from catis.core.signals import activation, euclidean, fuse, fuse_in_graph, in_single, l2, momentum, zscore
from catis.core.view import BlockView
from catis.methods import triage
from catis.methods.pooling import Pooling, attention_macs, attention_weight, check_pooling, pooled

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

    The defaults of Theta are a rough hand choice, not a result: the paper gives no numbers.

    Attributes:
        gamma: Momentum of the CLS attention over depth, >= 0.
        w_cls: Weight of the CLS signal in the fusion, in [0, 1].
        tau: Triage radius in standard deviations, >= 0: protect above tau, evict below -tau, merge between.
        evict_ratio: Share of r that eviction may take, in [0, 1].
        l_start: First block that uses the CLS signal; before it the score is s_nf alone.
        signal: "fused", or one of "cls", "nf", "l2", "euclidean" alone.
        strategy: "triage"; "evict" (the lowest r go), "merge" (the lowest r merge into their best match), "global"
            (evict from E, then ToMe's matching over all that is left).
        pooling: Weights inside a group: "size", or "attention" (of the CLS token, times size).

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
    pooling: Pooling = "size"

    def __post_init__(self) -> None:
        """Check Theta and the switches."""
        check_pooling(self.pooling)
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
        attention = self.observe(view)
        norm, context = self._signals(view, attention)
        if torch.compiler.is_exporting():
            score = fuse_in_graph(norm, context, self.w_cls, view.features.shape[-1])
        else:
            norm, context = _standardised(norm, context)
            score = fuse(norm, context, self.w_cls)
        plan = _STRATEGIES[self.strategy](score, view, self.tau, self.evictions(view.r))
        notes = self.notes(norm, context, score) if view.explain else {}
        return replace(pooled(plan, view, self.pooling), cls_attention=attention, notes=notes)

    def weight(self, view: BlockView) -> Tensor | None:
        """A_cls times size, where groups are weighed by it."""
        return attention_weight(view) if self.pooling == "attention" else None

    @property
    def needs_cls(self) -> bool:
        """Whether groups are weighed by its attention."""
        return self.pooling == "attention"

    def macs(self, shape: BlockShape) -> int:
        """The unary signals, and matching: all pairs of tokens, of which those inside M are taken.

        That is what PyTorch computes; the compiled functions compare those inside M alone.
        """
        uses_cls = shape.has_cls and self.signal in ("fused", "cls") and shape.block + 1 >= self.l_start
        rows = int(uses_cls) + int(self.pooling == "attention")  # A_cls of the score, and of the weights
        context = rows * attention_macs(shape)
        activation = 3 * shape.num_patches * shape.width if self.signal in ("fused", "nf") else 0
        if self.strategy == "evict":
            return context + activation
        pairs = shape.r * (shape.num_patches - shape.r) * shape.head_dim
        matching = pairs if self.strategy == "merge" else shape.num_patches**2 * shape.head_dim
        return context + activation + matching

    def evictions(self, r: int) -> int:
        """The most that eviction takes of r while M can supply the rest."""
        return math.floor(self.evict_ratio * r)

    def observe(self, view: BlockView) -> Tensor | None:
        """A_cls of this block where this or the next one needs it."""
        return view.cls_attention() if self.observes(view) else None

    def observes(self, view: BlockView) -> bool:
        """Whether A_cls is needed, by this block or by the next."""
        return view.has_cls and self.signal in ("fused", "cls") and view.block + 1 >= self.l_start

    def _signals(self, view: BlockView, attention: Tensor | None) -> tuple[Tensor | None, Tensor | None]:
        """s_nf and s_cls, each (B, N_p); None for one that does not enter the score."""
        norm = context = None
        if attention is not None and view.block >= self.l_start:
            context = momentum(attention, view.previous_cls, self.gamma)
        if self.signal != "cls" or context is None:
            norm = in_single(_NORMS[self.signal](view.patch_features()))
        return norm, context

    def notes(self, norm: Tensor | None, context: Tensor | None, score: Tensor) -> dict[str, Tensor]:
        """What went into the score, and the triage radius of each image."""
        threshold = score.new_full((score.shape[0],), self.tau)
        signals = {"s_nf": norm, "s_cls": context, "score": score, "threshold": threshold}
        return {name: values for name, values in signals.items() if values is not None}


def _standardised(norm: Tensor | None, context: Tensor | None) -> tuple[Tensor | None, Tensor | None]:
    """z(s_nf) and z(s_cls)."""
    if norm is not None and context is not None:  # both at once: half as many operations
        norm, context = zscore(torch.stack([norm, context], 1)).unbind(1)
        return norm, context
    return None if norm is None else zscore(norm), None if context is None else zscore(context)


def _within(option: str, value: float, low: float, high: float) -> None:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not low <= value <= high or math.isinf(value):
        raise ValueError(f"{option}={value!r}: expected a number in [{low:g}, {high:g}]")
