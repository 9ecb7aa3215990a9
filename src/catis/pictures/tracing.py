"""What a reduced model did to each patch, block by block."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import torch
from PIL import Image
from torch import Tensor, nn

from catis import hosts
from catis.core.block import BlockRecord
from catis.core.plan import EVICTED
from catis.core.state import TokenState
from catis.pictures.drawing import EvictedStyle, Layout, denormalise, layout_figure
from catis.report.table import Table

__all__ = ["BlockTrace", "Trace", "quarters", "trace"]


@dataclass(frozen=True)
class BlockTrace:
    """One block of a trace. Masks and scores are over the patch tokens that entered the block.

    Attributes:
        index: Index of the block.
        tokens_in: Patch tokens that entered.
        tokens_left: Patch tokens that left.
        scores: What the method saw, each (B, tokens_in): always "score"; for CATIS also "s_nf" and "s_cls".
        threshold: (B,) where the method cut: tau for CATIS, the weakest edge or energy taken for the others; None in
            a block that removed nothing.
        kept: (B, tokens_in) tokens that stayed (a token that others merged into stays).
        merged: (B, tokens_in) tokens that merged into another.
        evicted: (B, tokens_in) tokens that are gone.
        state: Sizes and provenance after the block.
    """

    index: int
    tokens_in: int
    tokens_left: int
    scores: Mapping[str, Tensor]
    threshold: Tensor | None
    kept: Tensor
    merged: Tensor
    evicted: Tensor
    state: TokenState

    @property
    def removed(self) -> int:
        """Patch tokens really removed, after the budget contract."""
        return self.tokens_in - self.tokens_left

    @property
    def size(self) -> Tensor:
        """(B, tokens_left) original patches that each token stands for."""
        return torch.ones(self.kept.shape[0], self.tokens_left) if self.state.size is None else self.state.size

    @property
    def provenance(self) -> Tensor:
        """(B, original patches) index of the token that holds each patch, -1 once evicted."""
        assert self.state.provenance is not None
        return self.state.provenance


@dataclass(frozen=True)
class Trace(Sequence[BlockTrace]):
    """Blocks of one forward pass, with the model's output. Index it, iterate it, or draw it.

    Attributes:
        blocks: One entry per block.
        output: What the model returned.
        images: (B, 3, H, W) the inputs, back in [0, 1].
    """

    blocks: tuple[BlockTrace, ...]
    output: Any
    images: Tensor

    def __len__(self) -> int:
        return len(self.blocks)

    def __getitem__(self, index: Any) -> Any:
        return self.blocks[index]

    def __iter__(self) -> Iterator[BlockTrace]:
        return iter(self.blocks)

    def table(self, title: str = "") -> Table:
        """Per block, tokens in and left, and what merged and what was evicted, mean over images."""
        columns = ["block", "tokens in", "left", "merged", "evicted", "largest group"]
        return Table(columns, [_row(block) for block in self.blocks], title)

    def summary(self) -> str:
        """The same as lines of aligned text."""
        lines = [self.table().columns, *self.table().rows]
        widths = [len(name) for name in lines[0]]
        return "\n".join("  ".join(f"{cell:>{w}}" for cell, w in zip(line, widths, strict=True)) for line in lines)

    def show(
        self,
        image: int = 0,
        after: Sequence[int] | None = None,
        *,
        heat_maps: bool = True,
        evicted: EvictedStyle = "white",
        caption: str = "",
    ) -> Image.Image:
        """Picture of one image: the original, the layout after some blocks, and the signals.

        Args:
            image: Which image of the batch.
            after: Block numbers, counted from 1; those beyond the model's depth are left out. By default the quarters
                of the depth: 3, 6, 9 and 12 of 12 blocks.
            heat_maps: Whether to draw the signals that the method went by.
            evicted: How evicted patches look: "white" as in the paper, "black", or "dim", a dark image of what was
                there; white vanishes on white images.
            caption: A line above the picture.

        Returns:
            A PIL image; notebooks display it, scripts `.save()` it.
        """
        numbers = quarters(len(self.blocks)) if after is None else after
        if any(number < 1 for number in numbers):
            raise ValueError(f"after={tuple(numbers)}: blocks are counted from 1")
        if self.images.ndim != 4:
            raise ValueError(f"images of shape {tuple(self.images.shape)}: only still images (B, 3, H, W) can be drawn")
        layouts = [self._layout(number - 1, image) for number in numbers if number <= len(self.blocks)]
        return layout_figure(self.images[image], layouts, heat_maps=heat_maps, evicted=evicted, caption=caption)

    def _layout(self, place: int, image: int) -> Layout:
        block = self.blocks[place]
        before = self.blocks[place - 1].provenance[image] if place else torch.arange(block.provenance.shape[1])
        scores = {name: _at_patches(values[image], before) for name, values in block.scores.items()}
        return Layout(place + 1, block.tokens_left, block.provenance[image], scores)


def quarters(depth: int) -> list[int]:
    """Numbers of the blocks, counted from 1, that end the quarters of a model's depth.

    Example:
        >>> quarters(24), quarters(6), quarters(2)
        ([6, 12, 18, 24], [2, 3, 4, 6], [1, 2])
    """
    return sorted({max(round(depth * part / 4), 1) for part in (1, 2, 3, 4)})


def trace(model: nn.Module, images: Tensor) -> Trace:
    """Run a reduced model and keep what each block decided. The model itself keeps nothing.

    Args:
        model: A model under `catis.apply`.
        images: (B, 3, H, W), preprocessed as for the model.

    Raises:
        ValueError: The model is not reduced.

    Example:
        >>> import catis, timm, torch
        >>> model = catis.apply(timm.create_model("vit_tiny_patch16_224").eval(), "tome", r=90)
        >>> seen = catis.trace(model, torch.zeros(1, 3, 224, 224))
        >>> [block.tokens_left for block in seen][:3]
        [106, 53, 27]
    """
    handle = hosts.find(model)
    if handle.reduction is None:
        raise ValueError(f"{type(model).__name__} is not reduced: call catis.apply(model, ...) before catis.trace")
    blocks: list[BlockTrace] = []
    with torch.no_grad():
        output = handle.watch(images, lambda record: blocks.append(_block(record)))
    return Trace(tuple(blocks), output, denormalise(images, asdict(handle.preprocessing())))


def _row(block: BlockTrace) -> list[str]:
    merged, evicted = (f"{mask.float().sum(-1).mean().item():.1f}" for mask in (block.merged, block.evicted))
    counts = (str(block.index + 1), str(block.tokens_in), str(block.tokens_left))
    return [*counts, merged, evicted, str(int(block.size.max()))]


def _block(record: BlockRecord) -> BlockTrace:
    plan, state = record.plan, record.state
    left = record.tokens.shape[1] - state.num_prefix
    if plan is None:
        kept = torch.ones(record.tokens.shape[0], left, dtype=torch.bool, device=record.tokens.device)
        return BlockTrace(record.index, left, left, {}, None, kept, ~kept, ~kept, state)
    slots = plan.slots()
    kept = torch.zeros_like(slots, dtype=torch.bool).scatter(1, plan.keep, True)
    evicted = slots == EVICTED
    scores = {name: values for name, values in plan.notes.items() if name != "threshold"}
    threshold = plan.notes.get("threshold")
    return BlockTrace(record.index, slots.shape[1], left, scores, threshold, kept, ~kept & ~evicted, evicted, state)


def _at_patches(values: Tensor, provenance: Tensor) -> Tensor:
    """Token values spread over the original patches they stand for; NaN where the patch is gone."""
    spread = values.float().gather(0, provenance.clamp_min(0))
    return spread.masked_fill(provenance < 0, float("nan"))
