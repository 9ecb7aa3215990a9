"""ToMe, ToFu and PiToMe as PiToMe's repository runs them: it can keep a share of the tokens in every block."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Literal

from catis.core.amounts import capped
from catis.core.method import Method
from catis.core.plan import Blend
from catis.core.schedule import Schedule
from catis.methods.pitome import PiToMe
from catis.methods.tofu import ToFu
from catis.methods.tome import ToMe


@dataclass(frozen=True)
class RatioForm(Method):
    """A form that can take a ratio in place of r. Average pools are not weighted by size.

    Attributes:
        reference: Always True; says in recipes and records that this is the authors' form.
        ratio: Keep this share of the tokens in every block, instead of removing r.
    """

    counts_prefix: ClassVar[bool] = True
    reference: bool = True
    ratio: float | None = None

    def __post_init__(self) -> None:
        """A ratio lies in (0, 1]."""
        if not self.reference:
            raise ValueError(f"reference={self.reference!r}: {type(self).__name__} is the authors' form")
        if self.ratio is not None and not 0.0 < self.ratio <= 1.0:
            raise ValueError(f"ratio={self.ratio!r}: expected a share in (0, 1]")
        super().__post_init__()

    @property
    def own_amounts(self) -> bool:
        """Whether a ratio decides the amounts."""
        return self.ratio is not None

    @property
    def weighs_pool(self) -> bool:
        """The authors' timm patches do not weigh average pools by size."""
        return False

    def amount(self, schedule: Schedule, block: int, num_patches: int, num_prefix: int) -> int:
        """Budget contract, or floor(T - T * ratio), with the CLS token counted in T where the authors count it."""
        if self.ratio is None:
            return schedule.amount(block, num_patches)
        counted = num_patches + (num_prefix if self.counts_prefix else 0)
        r = math.floor(counted - counted * self.ratio)
        if r > capped(r, num_patches):
            raise ValueError(
                f"ratio={self.ratio} removes {r} of {num_patches} patch tokens (+{num_prefix} prefix) in one block; at "
                "most half can merge (the authors' code would merge the CLS token away here): use a larger ratio"
            )
        return r


@dataclass(frozen=True)
class ToMeReference(RatioForm, ToMe):
    """ToMe without size-weighted pools; with a ratio, the copy in PiToMe's repository, which counts the CLS token.

    Example:
        >>> ToMeReference(ratio=0.9).amount(Schedule.parse(0), block=0, num_patches=196, num_prefix=1)
        19
    """

    @property
    def proportional(self) -> bool:
        """The copy in PiToMe's repository calls attention without sizes."""
        return self.ratio is None


@dataclass(frozen=True)
class ToFuReference(RatioForm, ToFu):
    """ToFu as the public code merges: the mean divided by the destination's own length, sizes never updated.

    Attributes:
        late: What late blocks do: "tofu" (DeiT patch) or "mean" (MAE patch).

    Example:
        >>> ToFuReference(ratio=0.9).blend(block=7, depth=12)
        'mlerp_dst'
    """

    late: Literal["tofu", "mean"] = "tofu"

    def __post_init__(self) -> None:
        """Check the options."""
        super().__post_init__()
        if self.late not in ("tofu", "mean"):
            raise ValueError(f"late={self.late!r}: expected 'tofu' or 'mean'")

    @property
    def proportional(self) -> bool:
        """The public code never updates sizes, so its proportional attention does nothing."""
        return False

    def blend(self, block: int, depth: int) -> Blend | None:
        """As the public code does, quirk and all."""
        if super().blend(block, depth) is None:
            return None
        return "mean" if self.late == "mean" else "mlerp_dst"


@dataclass(frozen=True)
class PiToMeReference(RatioForm, PiToMe):
    """PiToMe without proportional attention; its ratio counts patch tokens only.

    Example:
        >>> PiToMeReference(ratio=0.9).amount(Schedule.parse(0), block=0, num_patches=196, num_prefix=1)
        19
    """

    counts_prefix: ClassVar[bool] = False

    @property
    def proportional(self) -> bool:
        """The authors' patches call attention without sizes."""
        return False
