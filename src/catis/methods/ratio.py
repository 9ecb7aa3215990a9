"""The reference amounts of PiToMe's repository: keep a share of the tokens in every block (BASELINES 1.2, 1.3)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from catis.core.method import Method
from catis.core.schedule import Schedule, budget

__all__ = ["RatioMethod"]


@dataclass(frozen=True)
class RatioMethod(Method):
    """A method whose reference mode can take a ratio in place of r.

    Attributes:
        reference: Behave as the authors' code does also where we do better.
        ratio: With `reference`, keep this share of the tokens in every block, instead of removing r.
    """

    counts_prefix: ClassVar[bool] = True
    reference: bool = False
    ratio: float | None = None

    def __post_init__(self) -> None:
        """A ratio belongs to a reference mode, and lies in (0, 1]."""
        if self.ratio is not None and not (self.reference and 0.0 < self.ratio <= 1.0):
            raise ValueError(
                f"ratio={self.ratio!r} with reference={self.reference}: expected a share in (0, 1] and reference=True"
            )

    @property
    def own_amounts(self) -> bool:
        """Whether a ratio decides the amounts."""
        return self.ratio is not None

    @property
    def weighs_pool(self) -> bool:
        """The authors' timm patches do not weigh average pools by size."""
        return not self.reference

    def amount(self, schedule: Schedule, layer: int, num_patches: int, num_prefix: int) -> int:
        """Budget contract, or floor(T - T * ratio), with the CLS token counted in T where the authors count it."""
        if self.ratio is None:
            return schedule.amount(layer, num_patches)
        counted = num_patches + (num_prefix if self.counts_prefix else 0)
        r = math.floor(counted - counted * self.ratio)
        if r > budget(r, num_patches):
            raise ValueError(
                f"ratio={self.ratio} removes {r} of {num_patches} patch tokens (+{num_prefix} prefix) in one block; at "
                "most half can merge (the authors' code would merge the CLS token away here): use a larger ratio"
            )
        return r
