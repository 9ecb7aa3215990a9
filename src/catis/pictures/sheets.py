"""The file of `catis show`: figures below each other, or one contact sheet; as PNG, SVG, or frames of a GIF."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from catis.files import write_whole
from catis.pictures.canvas import Canvas, below
from catis.pictures.drawing import Look
from catis.pictures.files import TracedFiles
from catis.pictures.formats import as_gif, as_png, as_svg


def write_figures(seen: TracedFiles, path: Path, after: Sequence[int] | None, look: Look, *, on_sheet: bool) -> None:
    """Write what a model made of image files, by the ending of the file's name.

    Args:
        seen: The files, traced.
        path: `.png`, `.svg`, or `.gif` with the blocks as frames.
        after: Blocks to draw, counted from 1; None for the quarters of the depth, all for a GIF, the last on a sheet.
        look: How it looks; the captions are those of the files.
        on_sheet: One contact sheet in place of a figure for each.
    """
    depth = len(seen.traced)
    if path.suffix.lower() == ".gif":
        numbers = [number for number in after or range(1, depth + 1) if number <= depth]
        frames = [seen.sheet(number, look.evicted) for number in numbers] if on_sheet else _frames(seen, numbers, look)
        write_whole(path, as_gif(frames))
        return
    if on_sheet:
        canvas = below([seen.sheet(number, look.evicted) for number in after or [depth] if number <= depth])
    else:
        canvas = below([seen.traced.canvas(at, after, _of_image(seen, at, look)) for at in range(len(seen.captions))])
    write_whole(path, as_png(canvas) if path.suffix.lower() == ".png" else as_svg(canvas, "; ".join(seen.captions)))


def _frames(seen: TracedFiles, numbers: Sequence[int], look: Look) -> list[Canvas]:
    images = range(len(seen.captions))
    each = [seen.traced.frames(at, numbers, _of_image(seen, at, look)) for at in images]
    return [below(frame) for frame in zip(*each, strict=True)]


def _of_image(seen: TracedFiles, at: int, look: Look) -> Look:
    """Its own caption; one legend, below the last image."""
    return replace(look, caption=seen.captions[at], legend=at == len(seen.captions) - 1)
