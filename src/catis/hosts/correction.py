"""Calibrated weights as a value: new values of some parameters, for one model's weights under one reduction."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import torch
from torch import Tensor

from catis.core.reduction import Reduction
from catis.hosts.weights import Replaced, weights_hash

PRECISIONS = (torch.float64, torch.float32, torch.bfloat16, torch.float16)
"""What weights are kept in; a correction also fits its model cast down to a later one."""


@dataclass(frozen=True, eq=False)
class Correction:
    """Values that some parameters take while a reduction is on the model.

    `fitted` makes one that can be saved and checked; one made from values and reduction alone can be installed, to try
    it, and no more.

    Example:
        >>> import timm
        >>> model = timm.create_model("test_vit")
        >>> correction = Correction.fitted({}, Reduction.of("tome", r=4), model.state_dict())
        >>> sorted(correction.hashes)
        ['bfloat16', 'float16', 'float32']
    """

    values: Mapping[str, Tensor]  # by the name that the whole model has for each parameter
    reduction: Reduction  # what it was fitted for, bound to the model
    # Hash of the vanilla weights it belongs to, by their type: as loaded, and cast down from that.
    hashes: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def fitted(cls, values: Mapping[str, Tensor], reduction: Reduction, vanilla: Mapping[str, Tensor]) -> Correction:
        """A correction that knows the weights it belongs to."""
        if reduction.is_vanilla:
            raise ValueError("weights are calibrated for a reduction; this one removes nothing")
        dtype = _dtype_of(vanilla)
        lower = [other for other in PRECISIONS if other.itemsize < dtype.itemsize]
        hashes = {_name(other): weights_hash(vanilla, other) for other in lower}
        kept = {name: value.detach().cpu().clone() for name, value in values.items()}
        return cls(kept, reduction, {_name(dtype): weights_hash(vanilla), **hashes})

    @cached_property
    def digest(self) -> str:
        """Hash of the values, for records of runs."""
        return weights_hash(self.values)

    def check(self, reduction: Reduction, vanilla: Mapping[str, Tensor]) -> None:
        """Refuse other weights or another reduction than it was fitted for."""
        changed = self.difference(reduction)
        if changed:
            raise ValueError(
                f"the weights were calibrated for another reduction than the one they come with: {changed}; calibrate "
                "again, or change it back"
            )
        if any(weight.is_meta for weight in vanilla.values()):
            raise ValueError(
                "the model's weights are on the meta device or offloaded, so that calibrated weights cannot be matched "
                "with them: load the model without offloading"
            )
        dtype = _name(_dtype_of(vanilla))
        if dtype not in self.hashes:
            known = ", ".join(self.hashes) or "no weights at all"
            raise ValueError(f"the weights were calibrated for a model in {known}; this one is in {dtype}")
        own = weights_hash(vanilla)
        if own != self.hashes[dtype]:
            raise ValueError(
                f"the calibrated weights belong to a model whose {dtype} weights have the hash {self.hashes[dtype]}, "
                f"this model's have {own}: {self._why(vanilla)}"
            )

    def difference(self, reduction: Reduction) -> str:
        """How a reduction differs from the one it was fitted for; empty if it does not."""
        first, second = self.reduction.to_json(), reduction.to_json()
        names = [name for name in {**first, **second} if first.get(name) != second.get(name)]
        return "; ".join(f"{name} was {first.get(name)}, is {second.get(name)}" for name in names)

    def _why(self, vanilla: Mapping[str, Tensor]) -> str:
        """What may have happened to a model with other weights."""
        pairs = [(vanilla.get(name), value) for name, value in self.values.items()]
        if pairs and all(own is not None and _same(own, value) for own, value in pairs):
            return (
                "it holds the calibrated weights already, as a model does that was saved with them on; put only the "
                "reduction on it, catis.apply(model, load_recipe(...).reduction), or load the vanilla weights"
            )
        return "load the weights it was made with, or calibrate for these"

    def __deepcopy__(self, memo: Any) -> Correction:
        """Itself: a value that nobody writes to, so copies of a model share it."""
        return self


class Calibrated(NamedTuple):
    """What lies on a model beside its reduction: the correction, and the parameters that gave way to it."""

    correction: Correction
    replaced: tuple[Replaced, ...]


def _dtype_of(weights: Mapping[str, Tensor]) -> torch.dtype:
    return next((weight.dtype for weight in weights.values() if weight.is_floating_point()), torch.float32)


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def _same(own: Tensor, value: Tensor) -> bool:
    return own.shape == value.shape and torch.equal(own.detach().cpu(), value.to("cpu", own.dtype))
