"""Calibrates a reduced model block after block, each only as far as held-out answers allow."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor, nn

from catis import hosts
from catis.calibration.acceptance import Apart, HeldOut
from catis.calibration.answers import answer_of, distances
from catis.calibration.blocks import ModelBlocks, inputs_of
from catis.calibration.fitting import BlockFit, check_layers
from catis.calibration.head import classifier_in, head_step
from catis.calibration.streams import Place, Stream
from catis.calibration.views import View
from catis.core.reduction import Reduction
from catis.core.state import TokenState
from catis.hosts import Handle

SHARES = (1.0, 0.5, 0.25)
"""Parts of a step that are tried: late blocks have few tokens, and a whole step follows their chance too far."""
Progress = Callable[[int, int], None]
"""Called after each block with blocks done and blocks there are."""
Values = list[list[Tensor]]
"""Weight and bias of some layers."""
Entered = Sequence[Place]
"""What enters a block, for each batch."""


@dataclass
class Outcome:
    """What a calibration did."""

    before: float  # distance of held-out answers from vanilla's before, which is the unit: 1
    after: float  # the same, after
    # New values of the parameters that changed, by their names in the model.
    weights: dict[str, Tensor] = field(default_factory=dict)
    shares: list[float] = field(default_factory=list)  # per block, how much of the step was accepted; 0 where none was
    head: bool = False  # whether the classifier was fitted too
    fitted: int = 0  # views that were fitted
    held_out: int = 0  # views that chose and accepted


def calibrated_weights(
    model: nn.Module, reduction: Reduction, batches: Iterable[View], *, progress: Progress | None = None
) -> Outcome:
    """Fit the weights of a vanilla model to a reduction, on a copy: the model is left as it is.

    Args:
        model: A supported model without reduction.
        reduction: Bound to it.
        batches: Prepared images, and which of them are held out; each is asked for once.
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
        batches: Prepared images, and which of them are held out; each is asked for once.
    """

    def __init__(self, handle: Handle, reduction: Reduction, batches: Iterable[View]) -> None:
        self.handle, self.model = handle, handle.model
        check_layers(handle.linears())
        self.blocks = ModelBlocks(handle, reduction)
        self.original = {name: value.clone() for name, value in self.model.named_parameters()}
        device = next(self.model.parameters()).device
        own_size = ModelBlocks(handle, replace(reduction, input_size=None)) if reduction.input_size else None
        self.answers: list[tuple[Tensor, bool] | None] = []
        self.streams: list[Stream] = []
        for view in batches:  # images are not kept: tokens are far smaller
            images = view.images.to(device)
            self.answers.append(self._answer(images, view) if view.held_out else None)
            self.streams.append(self._stream(images, view, own_size))
            self.image = images[:1]
        self.head = classifier_in(handle, self.image)
        self.fits = list(self._fits(self.image, own_size))
        self._early = len(self.fits) // 2
        self._waiting: list[tuple[BlockFit, Entered, Values]] = []

    def _answer(self, images: Tensor, view: View) -> tuple[Tensor, bool]:
        """What vanilla says of the images of a view before they were corrupted."""
        if view.copies is None:
            return answer_of(self.handle, self.model(images))
        before = self.answers[-1]
        assert before is not None
        return before[0][view.copies], before[1]

    def _stream(self, images: Tensor, view: View, own_size: ModelBlocks | None) -> Stream:
        """A batch before the first block; the vanilla model gets the images before they were corrupted."""
        entrance = self.blocks.enter(images)
        if view.copies is not None:
            return Stream.copied(view, entrance, self.streams[-1])
        full = None if own_size is None else own_size.enter(images).tokens
        return Stream(view.held_out, entrance.tokens, entrance.state, entrance.tokens, full=full)

    def _fits(self, images: Tensor, own_size: ModelBlocks | None) -> Iterator[BlockFit]:
        entrance = self.blocks.enter(images[:1])
        full_positions = None if own_size is None else own_size.enter(images[:1]).state.positions
        unread = not self.handle.reads_patches()
        for index, (parts, linears) in enumerate(zip(entrance.parts, self.handle.linears(), strict=True)):
            prefix_only = unread and index == self.blocks.depth - 1
            positions = entrance.state.positions
            yield BlockFit(
                index, parts, linears, entrance.course, self.blocks.num_prefix, prefix_only, positions, full_positions
            )

    def run(self, progress: Progress | None = None) -> Outcome:
        """Fit all blocks, then the classifier."""
        self.held = HeldOut(self._distances(0, self._entered()))
        outcome = Outcome(before=1.0, after=1.0)
        outcome.held_out = sum(len(stream.tokens) for stream in self.streams if stream.held_out)
        outcome.fitted = sum(len(stream.tokens) for stream in self.streams) - outcome.held_out
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
        """Fit a block, and keep the largest share of the step that held-out answers allow, if any.

        In the first half of the blocks a step that does not clearly harm may wait until a later one brings answers
        closer: what is made good early pays in all blocks after it, more than answers show at once. What still waits in
        the middle is taken back: kept whenever the mean fell at all, it did a ViT-B harm on other images.
        """
        entered, before = self._entered(), _values(fit.layers)
        fit.run(self.streams)
        self._leave(fit, held_out=True)
        share, apart = self._largest_share(fit, entered, before, _values(fit.layers))
        if share < 1:
            self._pass_by([fit], entered)
        else:
            self._leave(fit, held_out=False)
        outcome.shares.append(share)
        if share:
            self._waiting.append((fit, entered if not self._waiting else (), before))
        if share and self.held.closer(apart):
            self.held.take(apart)
            self._waiting.clear()
        elif self._waiting and fit.index + 1 == self._early:
            self._take_back(outcome)
        outcome.after = self.held.score()

    def _largest_share(self, fit: BlockFit, entered: Entered, before: Values, after: Values) -> tuple[float, Apart]:
        """The largest share of a step that is allowed, put on the layers, and the distances with it."""
        early, apart = fit.index < self._early, self.held.now
        for share in SHARES:
            if share == 1:  # held-out images have just passed the block with it
                apart = self._distances(fit.index + 1, self._entered())
            else:
                _set(fit.layers, before, after, share)
                apart = self._distances(fit.index, entered)
            farther = self.held.farther(apart)
            if not farther if early else self.held.closer(apart):
                return share, apart
            if farther and not early:  # late fits that clearly harm do so in smaller shares too
                break
        _set(fit.layers, before, after, 0.0)
        return 0.0, apart

    def _take_back(self, outcome: Outcome) -> None:
        """Undo the steps that wait."""
        first, entered, _ = self._waiting[0]
        for fit, _, before in self._waiting:
            _set(fit.layers, before, before, 0.0)
            outcome.shares[fit.index] = 0.0
        self._pass_by(self.fits[first.index : self._early], entered)
        self._waiting.clear()

    def _leave(self, fit: BlockFit, held_out: bool) -> None:
        """Take those streams that are held out, or the others, from the reduction of a block to the next one."""
        for stream in self.streams:
            if stream.held_out == held_out:
                stream.place = fit.leave(stream.place)

    def _pass_by(self, fits: Sequence[BlockFit], entered: Entered) -> None:
        """Take the streams through some blocks as they are, from what entered the first."""
        for stream, place in zip(self.streams, entered, strict=True):
            for fit in fits:
                place = fit.pass_by(place)
            stream.place = place

    def _try_head(self, outcome: Outcome) -> None:
        """Fit the classifier, and keep it if held-out answers come closer."""
        if self.head is None:
            return
        reduced = [self._feature(self.head, stream.tokens, stream.state) for stream in self.streams]
        vanilla = [self._feature(self.head, *stream.vanilla_end()) for stream in self.streams]
        step = head_step(self.head, reduced, vanilla, [stream.held_out for stream in self.streams])
        if step is None:
            return
        before = _values([self.head])
        self.head.weight.add_(step[0])
        self.head.bias.add_(step[1])
        apart = self._distances(len(self.fits), self._entered())
        if self.held.closer(apart):
            self.held.take(apart)
            outcome.head, outcome.after = True, self.held.score()
        else:
            _set([self.head], before, before, 0.0)

    def _entered(self) -> Entered:
        return [stream.place for stream in self.streams]

    def _distances(self, start: int, entered: Entered) -> Apart:
        """Distances of held-out clean and of corrupted images, with the blocks from `start` on as they are."""
        apart: dict[bool, list[Tensor]] = {}
        for stream, place, answer in zip(self.streams, entered, self.answers, strict=True):
            if answer is None:
                continue
            for fit in self.fits[start:]:
                place = fit.pass_by(place)
            reduced, _ = answer_of(self.handle, self.blocks.leave(self.image, place.tokens, place.state))
            apart.setdefault(stream.corrupted, []).append(distances(answer[0], reduced, answer[1]))
        return {kind: torch.cat(own) for kind, own in apart.items()}

    def _feature(self, head: nn.Linear, tokens: Tensor, state: TokenState) -> Tensor:
        """(B, C) what the classifier reads when the last block gives these tokens."""
        with inputs_of(head) as features:
            self.blocks.leave(self.image, tokens, state)
        return features[-1]


def _values(layers: Sequence[nn.Linear]) -> Values:
    return [[parameter.clone() for parameter in layer.parameters()] for layer in layers]


def _set(layers: Sequence[nn.Linear], before: Values, after: Values, share: float) -> None:
    """Put a share of a step on some layers."""
    for layer, old, new in zip(layers, before, after, strict=True):
        for parameter, start, end in zip(layer.parameters(), old, new, strict=True):
            parameter.copy_(torch.lerp(start, end, share))
