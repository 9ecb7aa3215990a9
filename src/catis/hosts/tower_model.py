"""The forward pass of a vision tower whose images differ in size.

They come packed one behind the other, run in groups of one size, and are packed again. A group is an ordinary batch, so
every image gets its own budget and never sees its neighbours.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import torch
from torch import Tensor
from transformers.utils import ModelOutput

from catis.core.block import BlockRecord, Recorder
from catis.core.execute import unmerge
from catis.core.parts import BlockParts
from catis.core.reduction import Reduction
from catis.core.state import TokenState
from catis.hosts.hf_family import EVERY, Family, run_family
from catis.hosts.tower_parts import QwenBlockParts, Windows


class Packed(NamedTuple):
    """Embedded images, one behind the other."""

    tokens: Tensor  # (S, C) patch tokens of all images
    positions: Tensor | None  # (S, D) a row of positions for each, or None
    lengths: Sequence[int]  # patches of each image
    # What besides its length decides how an image is run (its windows), the same for images of one group.
    layouts: Sequence[Hashable]
    # (B, N) the places of these tokens in a padded batch; None if the model itself packs its images.
    visible: Tensor | None = None
    extra: Any = None  # what the read-out needs besides

    def as_given(self, tokens: Tensor) -> Tensor:
        """(S, C) tokens in the form in which the model has them; zeros where a mask hides a patch."""
        if self.visible is None:
            return tokens
        grid = tokens.new_zeros(*self.visible.shape, tokens.shape[-1])
        return grid.masked_scatter(self.visible.unsqueeze(-1), tokens)


class Group(NamedTuple):
    """Images of one size after the blocks."""

    images: Tensor  # (b,) which images they are
    rows: Tensor  # (b, n) where their patches lie among the packed tokens
    tokens: Tensor  # (b, K, C) the tokens that are left
    state: TokenState  # their companions


Run = Callable[[Tensor, Tensor | None, Hashable, Tensor], tuple[Tensor, TokenState]]
"""(tokens (b, n, C), positions (b, n, D) or None, layout, rows) -> what is left of them."""


def run_in_groups(packed: Packed, run: Run) -> list[Group]:
    """Run each set of images of one length and layout as a batch."""
    starts = [0]
    for length in packed.lengths:
        starts.append(starts[-1] + length)
    members: dict[tuple[int, Hashable], list[int]] = {}
    for image, key in enumerate(zip(packed.lengths, packed.layouts, strict=True)):
        members.setdefault(key, []).append(image)
    device, groups = packed.tokens.device, []
    for (length, layout), images in members.items():
        first = torch.tensor([starts[image] for image in images], device=device)
        rows = first[:, None] + torch.arange(length, device=device)
        positions = None if packed.positions is None else packed.positions[rows]
        tokens, state = run(packed.tokens[rows], positions, layout, rows)
        groups.append(Group(torch.tensor(images, device=device), rows, tokens, state))
    return groups


def packed_again(groups: Sequence[Group], read: Callable[[Tensor], Tensor] = lambda tokens: tokens) -> Tensor:
    """(S, C) un-merged patches of all images, each token through `read` (a norm) first."""
    grids = [unmerge(read(group.tokens), group.state) for group in groups]
    whole = grids[0].new_empty(sum(group.rows.numel() for group in groups), grids[0].shape[-1])
    for group, grid in zip(groups, grids, strict=True):
        whole = whole.index_copy(0, group.rows.flatten(), grid.flatten(0, 1))
    return whole


def pack_visible(tokens: Tensor, visible: Tensor) -> Packed:
    """(B, N, C) tokens of which each image shows those of its (B, N) mask; the others enter no block."""
    lengths = [int(count) for count in visible.sum(1).tolist()]
    if 0 in lengths:
        raise ValueError(f"image {lengths.index(0)} of the batch has no visible patch: its mask is all zero")
    return Packed(tokens[visible], None, lengths, [None] * len(lengths), visible)


def run(
    model: Any,
    family: Family,
    reduction: Reduction,
    inputs: dict[str, Any],
    flags: dict[str, Any],
    wanted: Collection[int] | None,
    record: Recorder | None,
) -> ModelOutput:
    """As `hf_model.run`, for a family that packs its images; `wanted` are the blocks whose hidden states are wanted."""
    packed: Packed = family.embed(model, flags, **inputs)
    if record is not None and len(set(zip(packed.lengths, packed.layouts, strict=True))) > 1:
        raise ValueError(
            f"images of {sorted(set(packed.lengths))} patches cannot be watched in one call: pass one size"
        )
    kept: dict[int, Tensor] = {}
    keep = {*family.taken(model), *(range(len(family.blocks_of(model))) if wanted is not None else ())}

    def run_group(x: Tensor, positions: Tensor | None, layout: Hashable, rows: Tensor) -> tuple[Tensor, TokenState]:
        parts = _parts(model, family, layout)
        watch = _collector(kept, keep, rows, len(packed.tokens), record) if keep else record
        return run_family(model, family, reduction, parts, x, positions, watch)

    groups = run_in_groups(packed, run_group)
    output: ModelOutput = family.finish(model, groups, kept, reduction.method.weighs_pool, packed)
    if wanted is not None:
        states = [packed.as_given(kept[block]) if block in wanted else None for block in sorted(kept)]
        output["hidden_states"] = (packed.as_given(packed.tokens), *states) if wanted is EVERY else tuple(states)
    return output


def _parts(model: Any, family: Family, layout: Hashable) -> list[BlockParts]:
    """The blocks for images of one layout: windowed ones know the windows."""
    windowed, parts = family.windowed(model), []
    for index, block in enumerate(family.blocks_of(model)):
        split = family.parts(block)
        if index in windowed and isinstance(split, QwenBlockParts) and isinstance(layout, Windows):
            split = replace(split, windows=layout)
        parts.append(split.heard())
    return parts


def _collector(
    kept: dict[int, Tensor], keep: Collection[int], rows: Tensor, total: int, record: Recorder | None
) -> Recorder:
    """A recorder that writes the un-merged tokens of some blocks to their rows among those of all images."""

    def collect(block: BlockRecord) -> None:
        if block.index in keep:
            grid = unmerge(block.tokens, block.state)
            before = kept.get(block.index, grid.new_empty(total, grid.shape[-1]))
            kept[block.index] = before.index_copy(0, rows.flatten(), grid.flatten(0, 1))
        if record is not None:
            record(block)

    return collect
