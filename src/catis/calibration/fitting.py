"""Fits one block: its projections, its attention output and its second MLP layer, each to what vanilla computes there.

The tokens that enter are kept, for the reduced model (on the weights calibrated so far) and for the vanilla one, so
that a block is fitted without running those before it again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import torch
from torch import Tensor, nn

from catis.calibration.blocks import Entrance, inputs_of, outputs_of, scale_of
from catis.calibration.ridge import NormalEquations, best_step
from catis.calibration.targets import balanced, fitted_rows, group_means, next_shares, row_weights
from catis.calibration.views import View
from catis.core.block import Course, attend, reduce_tokens
from catis.core.parts import BlockParts
from catis.core.state import TokenState
from catis.hosts import BlockLinears

Outputs = Mapping[nn.Module, Tensor]
"""What layers give, by layer."""


class Place(NamedTuple):
    """A batch of images between two blocks."""

    tokens: Tensor  # (B, N, C) reduced tokens
    state: TokenState  # their companions
    shares: Tensor | None = None  # (B, patches at the start) what each patch is of its token; None while they are alike


@dataclass
class Stream:
    """One batch of images on its way through the blocks."""

    held_out: bool  # whether it chooses penalties and accepts blocks, instead of being fitted
    tokens: Tensor  # (B, N, C) reduced tokens that enter the block
    state: TokenState  # their companions
    vanilla: Tensor  # (B, patches and prefix, C) tokens of the vanilla model at the same place
    # (B, N, C) what the tokens should be after the part of the block that is being fitted.
    target: Tensor = field(default_factory=lambda: torch.empty(0))
    # Tokens of the vanilla model at its own input size, where the reduction feeds a smaller image: the prefix follows
    # these, the patches have no counterpart there. None where the sizes are the same.
    full: Tensor | None = None
    corrupted: bool = False  # whether the vanilla model saw the images before they were corrupted
    shares: Tensor | None = None  # (B, patches at the start) what each patch is of its token; None while they are alike

    @classmethod
    def of(cls, view: View, entrance: Entrance, vanilla: Tensor, full: Tensor | None) -> Stream:
        """A batch before the first block, for the reduced model and for the vanilla one."""
        seen = entrance.tokens, entrance.state
        return cls(view.held_out, *seen, vanilla, full=full, corrupted=view.corrupted)

    @property
    def differs(self) -> bool:
        """Whether the tokens are others than vanilla's by now."""
        return self.full is not None or self.corrupted or self.tokens.shape != self.vanilla.shape

    @property
    def place(self) -> Place:
        """Where the batch is."""
        return Place(self.tokens, self.state, self.shares)

    @place.setter
    def place(self, place: Place) -> None:
        self.tokens, self.state, self.shares = place

    def first(self) -> Stream:
        """The first image of the batch alone, and no more of its state than attention needs to run."""
        positions = self.state.positions
        own = positions if positions is None or positions.ndim == 2 else positions[:1]
        state = TokenState(self.state.num_prefix, positions=own)
        return replace(self, tokens=self.tokens[:1], state=state, target=self.target[:1])

    def vanilla_end(self) -> tuple[Tensor, TokenState]:
        """Tokens of the vanilla model after the last block, at its own input size, and what goes with them."""
        tokens = self.vanilla if self.full is None else self.full
        prefix = self.state.num_prefix
        return tokens, TokenState.start(prefix, tokens.shape[1] - prefix, len(tokens), track=True, device=tokens.device)

    def wanted(self, vanilla: Tensor, full: Tensor | None) -> Tensor:
        """(B, N, C) targets from vanilla tokens, and from those of the full input size for the prefix."""
        means = group_means(vanilla, self.state, self.tokens.shape[1] - self.state.num_prefix, self.shares)
        if full is None:
            return means
        prefix = self.state.num_prefix
        return torch.cat([full[:, :prefix], means[:, prefix:]], 1)


@dataclass(frozen=True)
class BlockFit:
    """One block, and the layers of it that are fitted."""

    index: int  # index of the block
    parts: BlockParts  # the block, taken apart
    linears: BlockLinears  # its linear layers
    course: Course  # what the blocks share
    prefix_only: bool  # whether nobody reads the patch tokens that leave it
    positions: Tensor | None  # rotary positions of all patches
    full_positions: Tensor | None = None  # the same at the model's own input size

    @property
    def layers(self) -> tuple[nn.Linear, ...]:
        """What is fitted, in order: what reads the features, the attention's output, the MLP's second layer."""
        return (*self.linears.attention, self.linears.mlp[-1])

    def run(self, streams: Sequence[Stream]) -> None:
        """Fit the layers in place, and take all streams to the next block."""
        # while clean tokens are still vanilla's, only corrupted ones miss anything: clean answers would pay for them
        differ = all(stream.differs for stream in streams)
        self._follow_vanilla(streams, differ)
        if differ:
            self._fit(self.linears.attention[-1], streams, self._attention_error)
        for stream in streams:
            self._reduce(stream)
        self._fit(self.linears.mlp[-1], streams, self._mlp_error)
        for stream in streams:
            stream.tokens = self.parts.add_mlp(stream.tokens)

    def pass_by(self, place: Place) -> Place:
        """Tokens, companions and shares after the block as it is."""
        reduced = self._reduced(place)
        return reduced._replace(tokens=self.parts.add_mlp(reduced.tokens))

    def _reduced(self, place: Place) -> Place:
        """The same after attention and the reduction."""
        view = attend(self.parts, place.tokens, place.state, self.course, self.index)
        tokens, state, plan = reduce_tokens(view, place.state, self.course)
        return Place(tokens, state, next_shares(place.shares, plan, place.state))

    def _follow_vanilla(self, streams: Sequence[Stream], differ: bool) -> None:
        """Run the block as it was on the vanilla tokens, and fit what reads the features on the way if tokens differ.

        Queries, keys and values of a group should be the mean of its members' queries, keys and values.
        """
        readers = self.linears.attention[:-1]
        equations = [_pair(layer) for layer in readers]
        for stream in streams:
            projected, residual, output = self._vanilla(stream.vanilla, self.positions)
            full = (None, None, None) if stream.full is None else self._vanilla(stream.full, self.full_positions)
            if differ:
                rows = self.parts.norm(stream.tokens)
                weights = row_weights(rows, stream.state.num_prefix).flatten()
                for layer, pair in zip(readers, equations, strict=True):
                    wanted = stream.wanted(projected[layer], None if full[0] is None else full[0][layer])
                    errors = (wanted - layer(rows)).flatten(0, 1)
                    pair[stream.held_out].add(rows.flatten(0, 1), errors, balanced(weights, errors))
            stream.target = stream.wanted(residual, full[1])
            stream.vanilla, stream.full = output, full[2]
        for layer, pair in zip(readers, equations, strict=True):
            _take(layer, pair, None)

    def _vanilla(self, tokens: Tensor, positions: Tensor | None) -> tuple[Outputs, Tensor, Tensor]:
        """What the readers give, residual after attention and output of the block as it was, on vanilla tokens."""
        features, readers = self.parts.norm(tokens), self.linears.attention[:-1]
        with outputs_of(readers) as projected:
            update = self.parts.output(self.parts.mix(self.parts.project(features, positions), None), features)
        for layer in readers:
            if layer not in projected:  # some models read its weights instead of calling it
                projected[layer] = layer(features)
        residual = self.parts.add_attention(tokens, update)
        return projected, residual, self.parts.add_mlp(residual)

    def _fit(self, layer: nn.Linear, streams: Sequence[Stream], error_of: Callable[[Stream], Tensor]) -> None:
        """Add to a layer the ridge solution of what is missing in the residual stream behind it."""
        pair = _pair(layer)
        first = streams[0].first()
        scale = scale_of(layer, lambda: -error_of(first))  # the error falls by what is added
        for stream in streams:
            with inputs_of(layer) as inputs:
                error = error_of(stream)
            some = fitted_rows(error.shape[1], stream.state.num_prefix, self.prefix_only)
            weights = row_weights(error[:, some], stream.state.num_prefix).flatten()
            rows, errors = inputs[0][:, some].flatten(0, 1), error[:, some].flatten(0, 1)
            pair[stream.held_out].add(rows, errors, balanced(weights, errors))
        _take(layer, pair, scale)

    def _attention_error(self, stream: Stream) -> Tensor:
        return stream.target - attend(self.parts, stream.tokens, stream.state, self.course, self.index).residual

    def _mlp_error(self, stream: Stream) -> Tensor:
        return stream.target - self.parts.add_mlp(stream.tokens)

    def _reduce(self, stream: Stream) -> None:
        """Attention with the new weights, then the reduction; the target is now that of the block's output."""
        stream.place = self._reduced(stream.place)
        stream.target = stream.wanted(stream.vanilla, stream.full)


def _pair(layer: nn.Linear) -> tuple[NormalEquations, NormalEquations]:
    """Equations of the rows that are fitted, and of those held out."""
    sizes = layer.in_features, layer.out_features
    made = [NormalEquations(*sizes, intercept=layer.bias is not None, device=layer.weight.device) for _ in range(2)]
    return made[0], made[1]


def _take(layer: nn.Linear, pair: tuple[NormalEquations, NormalEquations], scale: Tensor | None) -> None:
    """Add the best step to a layer whose output reaches the residual stream times `scale`."""
    step = best_step(*pair)
    if step is None:
        return
    weight, bias = step
    if scale is not None:  # where a layer has no say, nothing is changed
        inverse = torch.where(scale.abs() > 1e-6, 1 / scale, 0.0)
        weight, bias = weight * inverse[:, None], bias * inverse
    layer.weight.add_(weight.to(layer.weight.dtype))
    if layer.bias is not None:
        layer.bias.add_(bias.to(layer.bias.dtype))


def check_layers(linears: Iterable[BlockLinears]) -> None:
    """Refuse blocks whose layers cannot be fitted.

    Raises:
        ValueError: A layer is missing, or is no plain linear layer in floating point.
    """
    for index, block in enumerate(linears):
        if len(block.attention) < 2 or not block.mlp:
            raise ValueError(f"block {index} has no linear layers that could be calibrated")
        for layer in (*block.attention, block.mlp[-1]):
            if type(layer).forward is not nn.Linear.forward or not layer.weight.is_floating_point():
                kind = type(layer).__name__
                raise ValueError(
                    f"block {index} has a {kind}: only plain linear layers in floating point are calibrated"
                )
