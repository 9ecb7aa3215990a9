"""Another method in some blocks: what `catis tune` finds where one operator is better early and another one late."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from catis.core.method import BlockShape, Method
from catis.core.plan import Plan
from catis.core.view import BlockView


@dataclass(frozen=True)
class PerBlock(Method):
    """One method per block.

    Attributes:
        methods: As many as the model has blocks.

    Example:
        >>> from catis.methods.tome import ToMe
        >>> from catis.methods.mctf import MCTF
        >>> PerBlock((ToMe(), MCTF())).at(1).name
        'mctf'
    """

    name: ClassVar[str] = "per-block"
    methods: tuple[Method, ...]

    def at(self, block: int) -> Method:
        """The method of a block."""
        return self.methods[block]

    def plan(self, view: BlockView) -> Plan:
        """What the block's method decides."""
        return self.at(view.block).plan(view)

    def weight(self, view: BlockView) -> Tensor | None:
        """That of the block's method."""
        return self.at(view.block).weight(view)

    def observe(self, view: BlockView) -> Tensor | None:
        """A_cls where the method of this block or of the next one keeps a history."""
        following = self.methods[view.block + 1 : view.block + 2]
        own = self.at(view.block).observe(view)
        return own if own is not None or not following else following[0].observe(view)

    @property
    def needs_cls(self) -> bool:
        """Whether the method of any block does."""
        return any(method.needs_cls for method in self.methods)

    def macs(self, shape: BlockShape) -> int:
        """Those of the block's method."""
        return self.at(shape.block).macs(shape)

    def check(self, num_prefix: int, depth: int) -> None:
        """Refuse a model of another depth, or one that a method refuses."""
        if len(self.methods) != depth:
            raise ValueError(f"{len(self.methods)} methods for {depth} blocks: expected one per block")
        for method in set(self.methods):
            if method.own_amounts or method.block_runner is not None:
                raise ValueError(f"{method.name}: a form of its authors' own cannot be mixed with other methods")
            method.check(num_prefix, depth)
