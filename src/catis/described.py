"""What is on a model, as data: the reduction, the tokens it leaves after each block, and what that saves."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from torch import nn

from catis import hosts
from catis.core.reduction import Reduction
from catis.hosts.swap import base_class
from catis.macs import compare_macs


@dataclass(frozen=True)
class ModelInfo:
    """A model under its reduction; a vanilla model has the method "vanilla" and keeps all of its tokens.

    Attributes:
        model: Class of the model.
        method: Name of the method; a list with name and options of each block where blocks have methods of their own.
        r: Patch tokens to remove per block, as recipes spell it; None where the method decides the amounts itself.
        options: All options of the method, defaults too.
        prop_attn: Whether attention counts the sizes of merged tokens.
        budget: Share of vanilla's multiply-adds that was asked for; None where r was.
        head_only: Whether the last block computes the prefix tokens alone.
        calibrated: Whether calibrated weights are on it.
        patches: Patch tokens that enter the first block.
        prefix: Prefix tokens, which always stay: CLS, distillation, registers.
        tokens: Patch tokens that leave each block.
        gmacs: Giga multiply-adds per image, as reduced.
        gmacs_vanilla: The same of the vanilla model.
        output: What a vision tower hands on: "grid" or "tokens".
        size_gain: Factor on log(size) in the attention logits; one per block where they differ.
        soften: How much softer attention gets as tokens go.
        restore_norm: Whether a merged token gets the mean norm of its members.
        input_size: Side to which images are resized first; None for as they come.
    """

    model: str
    method: Any
    r: Any
    options: Mapping[str, Any]
    prop_attn: bool
    budget: float | None
    head_only: bool
    calibrated: bool
    patches: int
    prefix: int
    tokens: tuple[int, ...]
    gmacs: float
    gmacs_vanilla: float
    output: str
    size_gain: Any
    soften: float
    restore_norm: bool
    input_size: int | None

    def to_json(self) -> dict[str, Any]:
        """The same as plain data."""
        return asdict(self)

    def __str__(self) -> str:
        r = "" if self.r is None or self.method == "vanilla" else f" r={self.r}"
        r = r if self.budget is None else f" budget={self.budget:g}"
        left = f"{self.tokens[-1]} of {self.patches} patch tokens left"
        calibrated = ", calibrated" if self.calibrated else ""
        method = self.method if isinstance(self.method, str) else "per-block"
        return f"{self.model}: {method}{r}{calibrated}, {left}, {self.gmacs:.3g} of {self.gmacs_vanilla:.3g} GMACs"


def info(model: nn.Module) -> ModelInfo:
    """Say what is on a model. Nothing is run; a model on the meta device will do.

    Raises:
        UnsupportedModelError: No model that catis knows.

    Example:
        >>> import catis, timm
        >>> model = catis.apply(timm.create_model("vit_small_patch16_224"), "catis", r=13)
        >>> print(catis.info(model))
        VisionTransformer: catis r=13, 40 of 196 patch tokens left, 2.7 of 4.6 GMACs
        >>> catis.info(model).tokens[:3], catis.info(catis.remove(model)).method
        ((183, 170, 157), 'vanilla')
    """
    handle = hosts.find(model)
    reduction = handle.reduction or Reduction.none()
    cost, depth = compare_macs(model, reduction), handle.facts.depth
    gains = tuple(round(reduction.gain(block, depth), 6) for block in range(depth))
    return ModelInfo(
        model=base_class(model).__name__,
        method=reduction.to_json()["method"],
        r=reduction.r,
        options=reduction.options,
        prop_attn=reduction.prop_attn,
        budget=reduction.budget,
        head_only=bool(reduction.head_only),
        calibrated=handle.correction is not None,
        patches=cost.patches,
        prefix=cost.prefix,
        tokens=cost.tokens,
        gmacs=cost.reduced,
        gmacs_vanilla=cost.vanilla,
        output=reduction.output,
        size_gain=gains[0] if len(set(gains)) == 1 else gains,
        soften=reduction.softens(0),
        restore_norm=reduction.restores_norm(0),
        input_size=reduction.input_size,
    )
