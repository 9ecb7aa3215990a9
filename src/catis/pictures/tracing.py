"""What a reduced model did to each patch, block by block."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from PIL import Image
from torch import Tensor, nn

from catis import hosts
from catis.files import check_writable, write_whole
from catis.pictures.block_trace import BlockTrace
from catis.pictures.canvas import Canvas
from catis.pictures.drawing import Layout, Look, layout_figure, layout_frames
from catis.pictures.formats import as_gif, as_png, as_svg, rasterise
from catis.pictures.patches import EvictedStyle, denormalise
from catis.report.table import Table

FORMATS = (".png", ".svg", ".gif")
"""Endings of the files that a trace can be drawn into."""
_LOOK = Look()
_TITLE = "patch tokens kept, merged and evicted"


@dataclass(frozen=True)
class Trace(Sequence[BlockTrace]):
    """Blocks of one forward pass, with the model's output. Index it, iterate it, or draw it.

    Attributes:
        blocks: One entry per block.
        output: What the Vision Transformer returned; of a transformers classifier, without its head.
        images: (B, 3, H, W) the inputs, back in [0, 1]; patches that a processor has cut are as they were given.
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
        return Table(columns, [block.row for block in self.blocks], title)

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
        evicted: EvictedStyle = "dim",
        caption: str = "",
        legend: bool = True,
    ) -> Image.Image:
        """Picture of one image: the original, the layout after some blocks, and the signals.

        Args:
            image: Which image of the batch.
            after: Block numbers, counted from 1; those beyond the model's depth are left out. By default the quarters
                of the depth: 3, 6, 9 and 12 of 12 blocks.
            heat_maps: Whether to draw the signals that the method went by.
            evicted: How evicted patches look: "dim", a dark image of what was there, "white" as in the paper, which
                vanishes on white images, or "black".
            caption: A line above the picture.
            legend: Whether to say below it what kept, merged and evicted patches look like.

        Returns:
            A PIL image; notebooks display it, scripts `.save()` it.
        """
        return rasterise(self.canvas(image, after, Look(heat_maps, evicted, caption, legend)))

    def save(
        self,
        path: str | Path,
        image: int = 0,
        after: Sequence[int] | None = None,
        *,
        heat_maps: bool = True,
        evicted: EvictedStyle = "dim",
        caption: str = "",
    ) -> None:
        """Write the picture, by the ending of its name: `.png`, `.svg`, or `.gif` with the blocks as frames.

        Args:
            path: File to write; it is whole or not there.
            image: As of `show`, and so are the others.
            after: Blocks to draw; a GIF has all of them unless some are named.

        Raises:
            ValueError: The name has another ending.
        """
        path, look = Path(path), Look(heat_maps, evicted, caption)
        check_writable(path, *FORMATS)
        if path.suffix.lower() == ".gif":
            content = as_gif(self.frames(image, after, look))
        else:
            canvas = self.canvas(image, after, look)
            content = as_png(canvas) if path.suffix.lower() == ".png" else as_svg(canvas, caption or _TITLE)
        write_whole(path, content)

    def canvas(self, image: int = 0, after: Sequence[int] | None = None, look: Look = _LOOK) -> Canvas:
        """What `show` draws, before it has a format; see there."""
        layouts = self.layouts(image, quarters(len(self.blocks)) if after is None else after)
        return layout_figure(self.images[image], layouts, look)

    def frames(self, image: int = 0, after: Sequence[int] | None = None, look: Look = _LOOK) -> list[Canvas]:
        """One canvas per block, for a moving picture; see `show`."""
        layouts = self.layouts(image, range(1, len(self.blocks) + 1) if after is None else after)
        return layout_frames(self.images[image], layouts, look)

    def _repr_html_(self) -> str:
        """What a notebook shows: the first image over the depth, if it is a still one, and the table."""
        drawn = as_svg(self.canvas(look=Look(heat_maps=False)), _TITLE).decode() if self.images.ndim == 4 else ""
        return f'<div style="max-width: 100%; overflow-x: auto">{drawn}</div>{self.table().html()}'

    def layouts(self, image: int, after: Sequence[int]) -> list[Layout]:
        """State of one image after blocks, counted from 1; those beyond the model's depth are left out."""
        if any(number < 1 for number in after):
            raise ValueError(f"after={tuple(after)}: blocks are counted from 1")
        if self.images.ndim != 4:
            raise ValueError(f"images of shape {tuple(self.images.shape)}: only still images (B, 3, H, W) can be drawn")
        return [self._layout(number - 1, image) for number in after if number <= len(self.blocks)]

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


def trace(model: nn.Module, images: Tensor, **inputs: Any) -> Trace:
    """Run a reduced model and keep what each block decided. The model itself keeps nothing.

    Args:
        model: A model under `catis.apply`.
        images: (B, 3, H, W), preprocessed as for the model; for a vision tower that takes patches of images of any
            size (Qwen's, SigLIP 2), these patches, which a table can show but no picture.
        inputs: What else the vision tower takes, by its own names: `grid_thw`, `spatial_shapes` and so on.

    Raises:
        ValueError: The model is not reduced, or the images are of several sizes, which end with different tokens.

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
        output = handle.watch(images, lambda record: blocks.append(BlockTrace.of(record)), **inputs)
    seen = images if images.ndim < 4 else denormalise(images, handle.preprocessing())
    return Trace(tuple(blocks), output, seen)


def _at_patches(values: Tensor, provenance: Tensor) -> Tensor:
    """Token values spread over the original patches they stand for; NaN where the patch is gone."""
    spread = values.float().gather(0, provenance.clamp_min(0))
    return spread.masked_fill(provenance < 0, float("nan"))
