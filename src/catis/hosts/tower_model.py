"""The forward pass of a vision tower whose images differ in size: in groups, each an ordinary batch."""

from __future__ import annotations

from collections.abc import Collection, Hashable
from dataclasses import replace
from typing import Any

from torch import Tensor
from transformers.utils import ModelOutput

from catis.core.block import BlockRecord, Recorder
from catis.core.execute import unmerge
from catis.core.parts import BlockParts
from catis.core.reduction import Reduction
from catis.core.state import TokenState
from catis.hosts.hf_blocks import EVERY, run_family
from catis.hosts.hf_family import Family
from catis.hosts.packing import Packed, run_in_groups
from catis.hosts.tower_parts import QwenBlockParts, Windows


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
