"""The blocks of a model one by one: what enters the first, what each does, and what the model answers at the end."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple

from torch import Tensor, nn

from catis.core.block import BlockRunner, BlockStep, Course
from catis.core.method import Method
from catis.core.parts import BlockParts
from catis.core.reduction import Reduction
from catis.core.schedule import Schedule
from catis.core.state import TokenState
from catis.hosts import Handle


@dataclass(frozen=True)
class _Stepped(Method):
    """A method whose blocks are run by somebody else, one at a time."""

    name: ClassVar[str] = "stepped"
    inner: Method
    runner: BlockRunner

    def amount(self, schedule: Schedule, block: int, num_patches: int, num_prefix: int) -> int:
        """None: the tokens pass."""
        return 0

    @property
    def own_amounts(self) -> bool:
        """So that the model runs through its blocks although nothing is removed."""
        return True

    @property
    def weighs_pool(self) -> bool:
        """As the method."""
        return self.inner.weighs_pool

    @property
    def block_runner(self) -> BlockRunner:
        """What was given."""
        return self.runner


class Entrance(NamedTuple):
    """What a batch of images is when it enters the first block."""

    tokens: Tensor  # (B, N, C) tokens
    state: TokenState  # their companions, provenance included
    parts: list[BlockParts]  # the blocks, taken apart
    course: Course  # what the blocks of this call share


class ModelBlocks:
    """Runs a model up to its first block and from its last block on, with the model's own modules.

    Args:
        handle: On the model. It must not be used by anybody else meanwhile.
        reduction: What the blocks do, bound to the model.
    """

    def __init__(self, handle: Handle, reduction: Reduction) -> None:
        self.handle, self.reduction = handle, reduction
        self.depth, self.num_prefix = handle.facts.depth, handle.facts.num_prefix

    def enter(self, images: Tensor) -> Entrance:
        """Embed a batch of prepared images."""
        parts: list[BlockParts] = []
        seen: list[tuple[Tensor, TokenState, Course]] = []

        def look(block: BlockParts, x: Tensor, state: TokenState, course: Course, index: int) -> BlockStep:
            parts.append(block)
            seen.append((x, state, course))
            return BlockStep(x, state)

        self._run(images, look)
        tokens, state, course = seen[0]
        patches = tokens.shape[1] - self.num_prefix
        tracked = TokenState.start(self.num_prefix, patches, len(tokens), track=True, device=tokens.device)
        amounts = self.reduction.amounts(self.depth, patches, self.num_prefix)
        proportional = self.reduction.prop_attn and self.reduction.method.proportional
        course = course._replace(reduction=self.reduction, amounts=amounts, proportional=proportional)
        return Entrance(tokens, replace(tracked, positions=state.positions), parts, course)

    def leave(self, image: Tensor, tokens: Tensor, state: TokenState) -> Any:
        """What the model returns when its last block gives these tokens; any (1, 3, H, W) image does, it is unread."""

        def pass_on(block: BlockParts, x: Tensor, ignored: TokenState, course: Course, index: int) -> BlockStep:
            return BlockStep(tokens, state) if index == self.depth - 1 else BlockStep(x, ignored)

        return self._run(image.expand(len(tokens), *image.shape[1:]), pass_on)

    def _run(self, images: Tensor, runner: BlockRunner) -> Any:
        method = _Stepped(self.reduction.method, runner)
        stepped = replace(self.reduction, method=method, schedule=Schedule(), head_only=False)
        before = self.handle.reduction
        self.handle.install(stepped)
        try:
            return self.handle.model(images)
        finally:
            self.handle.uninstall() if before is None else self.handle.install(before)


@contextmanager
def inputs_of(layer: nn.Module) -> Iterator[list[Tensor]]:
    """The inputs that a layer gets inside a with-block, in order."""
    inputs: list[Tensor] = []
    hook = layer.register_forward_pre_hook(lambda module, given: inputs.append(given[0]))
    try:
        yield inputs
    finally:
        hook.remove()


@contextmanager
def outputs_of(layers: Sequence[nn.Module]) -> Iterator[dict[nn.Module, Tensor]]:
    """What some layers give inside a with-block; one that is read without being called gives nothing."""
    outputs: dict[nn.Module, Tensor] = {}
    hooks = [layer.register_forward_hook(lambda m, given, output: outputs.update({m: output})) for layer in layers]
    try:
        yield outputs
    finally:
        for hook in hooks:
            hook.remove()


def scale_of(layer: nn.Module, run: Callable[[], Tensor]) -> Tensor:
    """(C,) what one unit of a layer's output adds to the residual stream: LayerScale, or ones.

    Measured, by adding one to the output, so that no host has to say where it keeps the scale.
    """
    without = run()
    hook = layer.register_forward_hook(lambda module, given, output: output + 1)
    try:
        return (run() - without).flatten(0, -2).double().mean(0)
    finally:
        hook.remove()
