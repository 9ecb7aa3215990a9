"""Fits one block: its projections, its attention output and its second MLP layer, each to what vanilla computes there.

The tokens that enter are kept, for the reduced model (on the weights calibrated so far) and for the vanilla one, so
that a block is fitted without running those before it again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from catis.calibration.blocks import inputs_of, outputs_of, scale_of
from catis.calibration.ridge import NormalEquations, best_step
from catis.calibration.streams import Place, Stream, Vanilla
from catis.calibration.targets import balanced, next_shares, row_weights, some_rows
from catis.core.block import Course, attend, attend_for_prefix, reduce_tokens
from catis.core.parts import BlockParts
from catis.core.state import TokenState
from catis.hosts import BlockLinears

Pair = tuple[NormalEquations, NormalEquations]
"""Equations of the rows that are fitted, and of those held out."""
Rows = Callable[[Stream, list[int]], tuple[Tensor, Tensor]]
"""(B, n, inputs) inputs of a layer at n of the tokens of a batch, and (B, n, C) what is missing behind it."""


@dataclass(frozen=True)
class BlockFit:
    """One block, and the layers of it that are fitted."""

    index: int  # index of the block
    parts: BlockParts  # the block, taken apart
    linears: BlockLinears  # its linear layers
    course: Course  # what the blocks share
    num_prefix: int  # prefix tokens
    prefix_only: bool  # whether nobody reads the patch tokens that leave it
    positions: Tensor | None  # rotary positions of all patches
    full_positions: Tensor | None = None  # the same at the model's own input size

    @property
    def layers(self) -> tuple[nn.Linear, ...]:
        """What is fitted, in order: what reads the features, the attention's output, the MLP's second layer."""
        return (*self.linears.attention, self.linears.mlp[-1])

    @property
    def _restores(self) -> bool:
        """Whether tokens that merge here get a norm, and so their targets in the residual stream."""
        return self.course.reduction.restores_norm(self.index)

    def run(self, streams: Sequence[Stream]) -> None:
        """Fit the layers in place, and take all streams through attention and the reduction."""
        # while clean tokens are still vanilla's, only corrupted ones miss anything: clean answers would pay for them
        differ = all(stream.differs for stream in streams)
        self._follow_vanilla(streams, differ)
        if differ:
            self._fit(self.linears.attention[-1], streams, self._attention_rows)
        for stream in streams:
            self._reduce(stream)
        self._fit(self.linears.mlp[-1], streams, self._mlp_rows)

    def leave(self, place: Place) -> Place:
        """From the reduction to the next block."""
        return place._replace(tokens=self.parts.add_mlp(place.tokens))

    def pass_by(self, place: Place) -> Place:
        """Tokens, companions and shares after the block as it is."""
        return self.leave(self._reduced(place))

    def _reduced(self, place: Place) -> Place:
        """The same after attention and the reduction; the prefix alone where nobody reads the patch tokens."""
        here = self.parts, place.tokens, place.state, self.course, self.index
        if self.prefix_only:
            prefix = attend_for_prefix(*here)
            return Place(prefix, TokenState.start(prefix.shape[1], 0, len(prefix), track=True, device=prefix.device))
        view = attend(*here)
        tokens, state, plan = reduce_tokens(view, place.state, self.course)
        return Place(tokens, state, next_shares(place.shares, plan, place.state))

    def _follow_vanilla(self, streams: Sequence[Stream], differ: bool) -> None:
        """Run the block as it was on the vanilla tokens, and fit what reads the features on the way if tokens differ.

        Queries, keys and values of a group should be the mean of its members' queries, keys and values.
        """
        readers = self.linears.attention[:-1]
        equations = [_pair(layer) for layer in readers]
        for stream in streams:
            if stream.copies is None:
                whole = self._whole(stream)
            seen = whole if stream.copies is None else whole.of(stream.copies)
            if differ:
                self._add_projections(stream, equations, seen)
            full = None if seen.full is None else seen.full.residual
            stream.target = stream.wanted(seen.residual, full, self._restores)
            stream.vanilla, stream.full = seen.output, None if seen.full is None else seen.full.output
        for layer, pair in zip(readers, equations, strict=True):
            _take(layer, pair, None)

    def _add_projections(self, stream: Stream, equations: Sequence[Pair], vanilla: Vanilla) -> None:
        """Add a batch to the equations of the layers that read the features."""
        some = some_rows(stream.tokens.shape[1], self.num_prefix, stream.held_out)
        rows = self.parts.norm(stream.tokens[:, some])
        weights = row_weights(rows, self.num_prefix).flatten()
        for layer, pair in zip(self.linears.attention[:-1], equations, strict=True):
            full = None if vanilla.full is None else vanilla.full.projected[layer]
            wanted = stream.wanted(vanilla.projected[layer], full)[:, some]
            errors = (wanted - layer(rows)).flatten(0, 1)
            pair[stream.held_out].add(rows.flatten(0, 1), errors, balanced(weights, errors))

    def _whole(self, stream: Stream) -> Vanilla:
        """The block as it was on the vanilla tokens of a batch, at the input size and at the model's own."""
        vanilla = self._vanilla(stream.vanilla, self.positions)
        if stream.full is None:
            return vanilla
        return vanilla._replace(full=self._vanilla(stream.full, self.full_positions))

    def _vanilla(self, tokens: Tensor, positions: Tensor | None) -> Vanilla:
        features, readers = self.parts.norm(tokens), self.linears.attention[:-1]
        with outputs_of(readers) as projected:
            update = self.parts.output(self.parts.mix(self.parts.project(features, positions), None), features)
        for layer in readers:
            if layer not in projected:  # some models read its weights instead of calling it
                projected[layer] = layer(features)
        residual = self.parts.add_attention(tokens, update)
        read = residual[:, : self.num_prefix] if self.prefix_only else residual
        return Vanilla(projected, residual, self.parts.add_mlp(read))

    def _fit(self, layer: nn.Linear, streams: Sequence[Stream], rows_of: Rows) -> None:
        """Add to a layer the ridge solution of what is missing in the residual stream behind it."""
        pair = _pair(layer)
        first = streams[0].first()
        scale = scale_of(layer, lambda: -rows_of(first, self._some(first))[1])  # the error falls by what is added
        for stream in streams:
            inputs, errors = rows_of(stream, self._some(stream))
            weights = row_weights(errors, self.num_prefix).flatten()
            errors = errors.flatten(0, 1)
            pair[stream.held_out].add(inputs.flatten(0, 1), errors, balanced(weights, errors))
        _take(layer, pair, scale)

    def _some(self, stream: Stream) -> list[int]:
        return some_rows(stream.tokens.shape[1], self.num_prefix, stream.held_out, self.prefix_only)

    def _attention_rows(self, stream: Stream, some: list[int]) -> tuple[Tensor, Tensor]:
        here = self.parts, stream.tokens, stream.state, self.course, self.index
        with inputs_of(self.linears.attention[-1]) as inputs:
            residual = attend_for_prefix(*here) if self.prefix_only else attend(*here).residual
        return inputs[0][:, some], stream.target[:, some] - residual[:, some]

    def _mlp_rows(self, stream: Stream, some: list[int]) -> tuple[Tensor, Tensor]:
        with inputs_of(self.linears.mlp[-1]) as inputs:  # of these tokens alone: each is computed for itself
            output = self.parts.add_mlp(stream.tokens[:, some])
        return inputs[0], stream.target[:, some] - output

    def _reduce(self, stream: Stream) -> None:
        """Attention with the new weights, then the reduction; the target is now that of the block's output."""
        stream.place = self._reduced(stream.place)
        stream.target = stream.wanted(stream.vanilla, stream.full, self._restores)


def _pair(layer: nn.Linear) -> Pair:
    """Equations of the rows that are fitted, and of those held out."""
    sizes = layer.in_features, layer.out_features
    made = [NormalEquations(*sizes, intercept=layer.bias is not None, device=layer.weight.device) for _ in range(2)]
    return made[0], made[1]


def _take(layer: nn.Linear, pair: Pair, scale: Tensor | None) -> None:
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
