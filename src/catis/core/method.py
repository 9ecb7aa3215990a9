"""What a token-reduction method is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from torch import Tensor

from catis.core.plan import Plan
from catis.core.schedule import Schedule
from catis.core.view import BlockView

if TYPE_CHECKING:
    from catis.core.block import BlockRunner


@dataclass(frozen=True)
class BlockShape:
    """Sizes of one reducing block, for counting what the reduction itself costs."""

    block: int
    depth: int
    num_patches: int  # patch tokens that enter
    num_prefix: int
    has_cls: bool
    r: int  # patch tokens removed
    width: int  # width C of the residual stream
    num_heads: int
    head_dim: int  # width d of a head

    @property
    def matching_macs(self) -> int:
        """Cosine of two halves of the patch tokens, on head-averaged keys."""
        return (self.num_patches // 2) * (self.num_patches - self.num_patches // 2) * self.head_dim


@dataclass(frozen=True)
class Method:
    """Base of every method: turns what it sees of a block into a Plan. Subclasses are frozen dataclasses of options.

    A new method is one such class, registered under the entry-point group `catis.methods`. It must remove exactly
    `view.r` patch tokens of every image, whatever the scores are, with no loop over images and no host sync.

    Our methods define `plan`, `weight`, `observe` and `macs`. The rest says how a method is run: the defaults are
    the common place and amounts, which the authors' own forms (catis.reference) and replays replace.
    """

    name: ClassVar[str] = ""

    def __post_init__(self) -> None:
        """Check the options."""

    def at(self, block: int) -> Method:
        """The method that decides in a block; itself, unless blocks have methods of their own."""
        return self

    def plan(self, view: BlockView) -> Plan:
        """Decide what happens to each patch token."""
        raise TypeError(f"{type(self).__name__} does not define plan()")

    def weight(self, view: BlockView) -> Tensor | None:
        """(B, N_p) weights of blend "weight", as `plan` has them, with their gradient."""
        return None

    def observe(self, view: BlockView) -> Tensor | None:
        """A_cls to carry out of a block that removes nothing; None if the method keeps no history."""
        return None

    def macs(self, shape: BlockShape) -> int:
        """Multiply-adds that choosing tokens adds to a block, beside the model's own; merging only adds r rows."""
        return 0

    def amount(self, schedule: Schedule, block: int, num_patches: int, num_prefix: int) -> int:
        """Patch tokens to remove in this block: what the schedule says, within the budget contract."""
        return schedule.amount(block, num_patches)

    @property
    def own_amounts(self) -> bool:
        """Whether the method decides how many tokens go, so that r is not asked for."""
        return False

    @property
    def proportional(self) -> bool:
        """Whether attention may count sizes."""
        return True

    def size_gain(self, place: float) -> float:
        """Factor on log(size) in the attention logits that suits the method, where a reduction names none.

        Args:
            place: Of the block in the depth, from 0, the first, to 1, the last.
        """
        return 1.0

    @property
    def soften(self) -> float:
        """How much softer attention gets as tokens go, where a reduction says nothing."""
        return 0.0

    @property
    def restore_norm(self) -> bool:
        """Whether merged tokens get the mean norm of their members, where a reduction says nothing."""
        return False

    @property
    def weighs_pool(self) -> bool:
        """Whether average and attention pools weigh tokens by size."""
        return True

    @property
    def needs_cls(self) -> bool:
        """Whether the method cannot do without a CLS token."""
        return False

    @property
    def block_runner(self) -> BlockRunner | None:
        """What runs a block in place of `catis.core.block.run_block`; asked once per forward call."""
        return None

    def check(self, num_prefix: int, depth: int) -> None:
        """Refuse, with a ValueError, a model that this method would treat wrongly."""
