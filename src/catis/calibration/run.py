"""Calibrates a reduced model block after block, each only as far as held-out answers come closer to vanilla's."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor, nn

from catis import hosts
from catis.calibration.answers import answer_of, distances
from catis.calibration.blocks import ModelBlocks, inputs_of
from catis.calibration.fitting import BlockFit, Stream, check_layers
from catis.calibration.head import classifier_in, head_step
from catis.calibration.views import View
from catis.core.reduction import Reduction
from catis.core.state import TokenState
from catis.hosts import Handle

__all__ = ["Calibrator", "Outcome", "Progress", "calibrated_weights"]

SHARES = (1.0, 0.5, 0.25)
"""Parts of a step that are tried: late blocks have few tokens, and a whole step follows their chance too far."""
Progress = Callable[[int, int], None]
"""Called after each block with blocks done and blocks there are."""
Entered = Sequence[tuple[Tensor, TokenState]]
"""Tokens that enter a block and their companions, for each batch."""


@dataclass
class Outcome:
    """What a calibration did.

    Attributes:
        weights: New values of the parameters that changed, by their names in the model.
        before: Distance of held-out answers from vanilla's before, which is the unit: 1.
        after: The same, after.
        shares: Per block, how much of the step was accepted; 0 where none was.
        head: Whether the classifier was fitted too.
        fitted: Views that were fitted.
        held_out: Views that chose and accepted.
    """

    before: float
    after: float
    weights: dict[str, Tensor] = field(default_factory=dict)
    shares: list[float] = field(default_factory=list)
    head: bool = False
    fitted: int = 0
    held_out: int = 0


def calibrated_weights(
    model: nn.Module, reduction: Reduction, batches: Sequence[View], *, progress: Progress | None = None
) -> Outcome:
    """Fit the weights of a vanilla model to a reduction, on a copy: the model is left as it is.

    Args:
        model: A supported model without reduction.
        reduction: Bound to it.
        batches: Prepared images, and which of them are held out.
        progress: Called with (done, total) after each block.

    Raises:
        ValueError: A layer cannot be calibrated.
        CatisError: The model's answers are not finite.
    """
    work = copy.deepcopy(model).float().eval()
    with torch.no_grad():
        return Calibrator(hosts.find(work), reduction, batches).run(progress)


class Calibrator:
    """Fits the weights of one model, in place.

    Args:
        handle: On a vanilla model in float32, which nobody else uses.
        reduction: Bound to it.
        batches: Prepared images, and which of them are held out.
    """

    def __init__(self, handle: Handle, reduction: Reduction, batches: Sequence[View]) -> None:
        self.handle, self.model = handle, handle.model
        check_layers(handle.linears())
        self.blocks = ModelBlocks(handle, reduction)
        self.original = {name: value.clone() for name, value in self.model.named_parameters()}
        device = next(self.model.parameters()).device
        views = [view.to(device) for view in batches]
        self.head = classifier_in(handle, views[0].images)
        self.answers = [answer_of(handle, self.model(view.whole)) if view.held_out else None for view in views]
        own_size = ModelBlocks(handle, replace(reduction, input_size=None)) if reduction.input_size else None
        self.streams = [self._stream(view, own_size) for view in views]
        self.fits = list(self._fits(views[0].images, own_size))
        self.started: Mapping[bool, float] = {}
        self.reached = self.started

    def _stream(self, view: View, own_size: ModelBlocks | None) -> Stream:
        """A batch before the first block; the vanilla model gets the images before they were corrupted."""
        entrance = self.blocks.enter(view.images)
        vanilla = self.blocks.enter(view.whole).tokens if view.corrupted else entrance.tokens
        full = None if own_size is None else own_size.enter(view.whole).tokens
        return Stream.of(view, entrance, vanilla, full)

    def _fits(self, images: Tensor, own_size: ModelBlocks | None) -> Iterator[BlockFit]:
        entrance = self.blocks.enter(images[:1])
        full_positions = None if own_size is None else own_size.enter(images[:1]).state.positions
        unread = not self.handle.reads_patches()
        for index, (parts, linears) in enumerate(zip(entrance.parts, self.handle.linears(), strict=True)):
            prefix_only = unread and index == self.blocks.depth - 1
            positions = entrance.state.positions
            yield BlockFit(index, parts, linears, entrance.course, prefix_only, positions, full_positions)

    def run(self, progress: Progress | None = None) -> Outcome:
        """Fit all blocks, then the classifier."""
        self.started = self.reached = self._distances(0, self._entered())
        outcome = Outcome(before=1.0, after=1.0)
        outcome.held_out = sum(len(stream.images) for stream in self.streams if stream.held_out)
        outcome.fitted = sum(len(stream.images) for stream in self.streams) - outcome.held_out
        for fit in self.fits:
            self._try_block(fit, outcome)
            if progress is not None:
                progress(fit.index + 1, len(self.fits))
        self._try_head(outcome)
        outcome.weights = {
            name: value.detach().clone()
            for name, value in self.model.named_parameters()
            if not torch.equal(value, self.original[name])
        }
        return outcome

    def _try_block(self, fit: BlockFit, outcome: Outcome) -> None:
        """Fit a block, and keep as much of the step as brings held-out answers closest, if any does."""
        entered, before = self._entered(), _values(fit.layers)
        fit.run(self.streams)
        after = _values(fit.layers)
        share = 0.0
        for tried in SHARES:
            _set(fit.layers, before, after, tried)
            means = self._distances(fit.index, entered)
            if self._better(means):
                share, self.reached = tried, means
        _set(fit.layers, before, after, share)
        if share < 1:
            for stream, (tokens, state) in zip(self.streams, entered, strict=True):
                stream.tokens, stream.state = fit.pass_by(tokens, state)
        outcome.shares.append(share)
        outcome.after = self._score(self.reached)

    def _try_head(self, outcome: Outcome) -> None:
        """Fit the classifier, and keep it if held-out answers come closer."""
        if self.head is None:
            return
        reduced = [self._feature(self.head, stream, stream.tokens, stream.state) for stream in self.streams]
        vanilla = [self._feature(self.head, stream, *stream.vanilla_end()) for stream in self.streams]
        step = head_step(self.head, reduced, vanilla, [stream.held_out for stream in self.streams])
        if step is None:
            return
        before = _values([self.head])
        self.head.weight.add_(step[0])
        self.head.bias.add_(step[1])
        means = self._distances(len(self.fits), self._entered())
        if self._better(means):
            self.reached, outcome.head, outcome.after = means, True, self._score(means)
        else:
            _set([self.head], before, before, 0.0)

    def _entered(self) -> Entered:
        return [(stream.tokens, stream.state) for stream in self.streams]

    def _better(self, means: Mapping[bool, float]) -> bool:
        """Whether held-out answers come closer in all, and those on clean images do not go farther away."""
        return self._score(means) < self._score(self.reached) and means[False] <= self.reached[False]

    def _score(self, means: Mapping[bool, float]) -> float:
        """Distance in units of what it was before, clean and corrupted images counting alike."""
        return sum(mean / max(self.started[kind], 1e-9) for kind, mean in means.items()) / len(means)

    def _distances(self, start: int, entered: Entered) -> dict[bool, float]:
        """Mean distance of held-out clean and of corrupted images, with the blocks from `start` on as they are."""
        apart: dict[bool, list[Tensor]] = {}
        for stream, (tokens, state), answer in zip(self.streams, entered, self.answers, strict=True):
            if answer is None:
                continue
            for fit in self.fits[start:]:
                tokens, state = fit.pass_by(tokens, state)
            reduced, _ = answer_of(self.handle, self.blocks.leave(stream.images, tokens, state))
            apart.setdefault(stream.corrupted, []).append(distances(answer[0], reduced, answer[1]))
        return {kind: float(torch.cat(own).mean()) for kind, own in apart.items()}

    def _feature(self, head: nn.Linear, stream: Stream, tokens: Tensor, state: TokenState) -> Tensor:
        """(B, C) what the classifier reads when the last block gives these tokens."""
        with inputs_of(head) as features:
            self.blocks.leave(stream.images, tokens, state)
        return features[-1]


def _values(layers: Sequence[nn.Linear]) -> list[list[Tensor]]:
    return [[parameter.clone() for parameter in layer.parameters()] for layer in layers]


def _set(layers: Sequence[nn.Linear], before: list[list[Tensor]], after: list[list[Tensor]], share: float) -> None:
    """Put a share of a step on some layers."""
    for layer, old, new in zip(layers, before, after, strict=True):
        for parameter, start, end in zip(layer.parameters(), old, new, strict=True):
            parameter.copy_(torch.lerp(start, end, share))
