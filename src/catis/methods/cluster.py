"""Cluster: the tokens that matter least and have a look-alike that matters more join the nearest token that stays."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor

from catis.core.method import BlockShape, Method
from catis.core.order import ascending, order_by, place_of_best, top
from catis.core.plan import Plan
from catis.core.rows import take_rows
from catis.core.signals import in_single
from catis.core.view import BlockView, unit_length
from catis.methods.pooling import Pooling, attention_macs, check_pooling

FIRST_GAIN, LAST_GAIN = 0.2, 1.0
"""Factor on log(size) in the attention logits of the first block, and of the last (docs/methods.md)."""
SOFTEN = 0.1
"""How much softer attention gets as tokens go."""
_NO_LENGTH = 1e-12
"""Added to a variance in exported graphs: a vector of equal channels has no direction."""
_NEVER = -4.0
"""Added to a correlation: below any other."""


@dataclass(frozen=True)
class Cluster(Method):
    """Clustering by weight, with any token as a centre.

    A token weighs w = (A_cls * size) ** power, what the CLS token pays it times the patches it stands for; without a
    CLS token its size alone. Merging i into a heavier j costs (1 - c_ij) / (1 / w_i + 1 / w_j), where c is the
    correlation of their residuals: what Ward's clustering adds to the variance inside groups. The r tokens with the
    least cost go, each to the most alike token that stays, and a group is the mean weighted by A_cls. There is no
    even/odd split: any two tokens of an image may meet.

    Attributes:
        power: How much weight counts against likeness, >= 0.
        pooling: Weights inside a group: "attention" (of the CLS token, where there is one), or "size".

    Example:
        >>> import catis, timm
        >>> model = catis.apply(timm.create_model("vit_tiny_patch16_224"), "cluster", r=8)
    """

    name: ClassVar[str] = "cluster"
    power: float = 0.4
    pooling: Pooling = "attention"

    def __post_init__(self) -> None:
        """Check the options."""
        check_pooling(self.pooling)
        if isinstance(self.power, bool) or not 0.0 <= self.power < math.inf:
            raise ValueError(f"power={self.power!r}: expected a number >= 0")

    def size_gain(self, place: float) -> float:
        """Rising: a mean of tokens that differ deserves less than all of their attention, above all early."""
        return FIRST_GAIN + (LAST_GAIN - FIRST_GAIN) * place

    @property
    def soften(self) -> float:
        """A little."""
        return SOFTEN

    @property
    def restore_norm(self) -> bool:
        """Yes: it brings answers nearer to vanilla's, most where most is removed (docs/methods.md)."""
        return True

    def macs(self, shape: BlockShape) -> int:
        """All pairs on the full width, those that go with those that stay once more, and the CLS token's row."""
        pairs = shape.num_patches**2 + shape.r * (shape.num_patches - shape.r)
        return pairs * shape.width + (attention_macs(shape) if shape.has_cls else 0)

    def plan(self, view: BlockView) -> Plan:
        """Choose what goes, then where it goes."""
        attention, unit = view.cls_attention(), _centred(in_single(view.patch_residual()))
        alike = torch.bmm(unit, unit.transpose(1, 2))
        weight = self._weight(attention, view)
        gains = _gains(alike, weight, weight.pow(-self.power))
        order = order_by(gains, descending=True)
        removed, keep = order[:, : view.r], ascending(order[:, view.r :])
        target, into = _nearest(unit, alike, removed, keep)
        notes = _notes(gains, view.r) if view.explain else {}
        if attention is None or self.pooling == "size":
            return Plan(keep, removed, target, all_merge=True, into=into, notes=notes)
        return Plan(keep, removed, target, True, "weight", _positive(attention), into=into, notes=notes)

    def weight(self, view: BlockView) -> Tensor | None:
        """A_cls, where groups are weighed by it."""
        attention = None if self.pooling == "size" else view.cls_attention()
        return None if attention is None else _positive(attention)

    def _weight(self, attention: Tensor | None, view: BlockView) -> Tensor:
        """(B, N_p) A_cls * size, whose power is w; ones where there is neither, or the power makes ones of all."""
        parts = [part for part in (attention, view.size) if part is not None]
        if not parts or not self.power:
            return in_single(view.patch_residual()[..., 0]).new_ones(()).expand(len(view.residual), view.num_patches)
        return _positive(in_single(parts[0] if len(parts) == 1 else parts[0] * parts[1]))


def _centred(tokens: Tensor) -> Tensor:
    """Vectors without their mean, at unit length: a product of two is their correlation over the channels."""
    if torch.compiler.is_exporting():  # a single node
        width = tokens.shape[-1]
        return F.layer_norm(tokens, (width,), tokens.new_full((width,), width**-0.5), eps=_NO_LENGTH)
    return unit_length(tokens - tokens.mean(-1, keepdim=True))


def _gains(alike: Tensor, weight: Tensor, inverse: Tensor) -> Tensor:
    """(B, N_p) minus the least cost of merging each token into a heavier one; minus infinity for the heaviest.

    Of tokens that weigh the same the earlier counts as heavier, so that no two wait for each other. Weights are
    compared before they are raised to a power, which may give equal numbers at two places different last bits.
    """
    own, other = weight[:, :, None], weight[:, None, :]
    place = torch.arange(alike.shape[1], device=alike.device)
    heavier = (other > own) | ((other == own) & (place < place[:, None]))
    return torch.where(heavier, (alike - 1) / (inverse[:, :, None] + inverse[:, None, :]), -math.inf).amax(-1)


def _nearest(unit: Tensor, alike: Tensor, removed: Tensor, keep: Tensor) -> tuple[Tensor, Tensor | None]:
    """(B, R) the most alike of those that stay, as a place in `keep`, and as a token where that is known.

    A graph has all likenesses already and masks those that go: copies of whole tokens and a product fewer.
    """
    if torch.compiler.is_exporting():
        gone = torch.zeros_like(alike[:, 0]).scatter(1, removed, _NEVER)
        into = place_of_best(take_rows(alike, removed) + gone[:, None])
        return (keep[:, None, :] < into[:, :, None]).sum(-1), into
    return torch.bmm(take_rows(unit, removed), take_rows(unit, keep).transpose(1, 2)).argmax(-1), None


def _positive(weight: Tensor) -> Tensor:
    return weight.clamp_min(torch.finfo(weight.dtype).tiny)


def _notes(gains: Tensor, r: int) -> dict[str, Tensor]:
    """Minus the costs (the heaviest token, which has none, as the costliest), and that of the last token to go."""
    lowest = torch.where(gains.isinf(), math.inf, gains).amin(-1, keepdim=True)
    return {"score": torch.maximum(gains, lowest), "threshold": top(gains, r).values[:, -1]}
