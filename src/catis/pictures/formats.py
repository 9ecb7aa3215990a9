"""A canvas as a file: PNG, SVG with lines and words that stay sharp, or GIF with canvases as frames."""

from __future__ import annotations

import base64
import io
from collections.abc import Sequence
from functools import cache
from html import escape

import numpy as np
import torch
from PIL import Image, ImageDraw, ImageFont
from torch import Tensor

from catis.pictures.canvas import Box, Canvas, Item, Picture, Strokes, Words

_FRAME_MS, _LAST_MS = 450, 1800
"""How long a frame of a GIF stands, and its last one."""


def rasterise(canvas: Canvas) -> Image.Image:
    """The canvas as pixels."""
    image = Image.new("RGB", (canvas.width, canvas.height), "white")
    pen = ImageDraw.Draw(image, "RGBA")
    for item in canvas.items:
        _paint(item, image, pen)
    return image


def as_png(canvas: Canvas) -> bytes:
    """A PNG file."""
    return png_bytes(rasterise(canvas))


def as_gif(frames: Sequence[Canvas]) -> bytes:
    """An endless GIF; its colours are chosen once, from all frames, so that nothing flickers."""
    images = [rasterise(frame) for frame in frames]
    wide, high = images[0].size
    sample = Image.new("RGB", (wide, high * len(images)))
    for place, image in enumerate(images):
        sample.paste(image, (0, place * high))
    palette = sample.quantize(256, dither=Image.Dither.NONE)
    indexed = [image.quantize(palette=palette, dither=Image.Dither.NONE) for image in images]
    times = [_FRAME_MS] * (len(images) - 1) + [_LAST_MS]
    file = io.BytesIO()
    indexed[0].save(file, "GIF", save_all=True, append_images=indexed[1:], duration=times, loop=0)
    return file.getvalue()


def as_svg(canvas: Canvas, title: str) -> bytes:
    """An SVG file that holds its pictures and asks for nothing from outside; the same bytes for the same canvas."""
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {canvas.width} {canvas.height}" width="{canvas.width}" '
        f'height="{canvas.height}" role="img" font-family="system-ui, Helvetica, Arial, sans-serif">'
    )
    paper = f'<rect width="{canvas.width}" height="{canvas.height}" fill="#ffffff"/>'
    lines = [head, f"<title>{escape(title)}</title>", paper, *(_element(item) for item in canvas.items), "</svg>", ""]
    return "\n".join(lines).encode()


def _paint(item: Item, image: Image.Image, pen: ImageDraw.ImageDraw) -> None:
    match item:
        case Words():
            pen.text((item.x, item.y), item.text, fill=item.colour, font=_font(item.size))
        case Picture():
            size = round(item.width), round(item.height)
            image.paste(_to_pil(item.pixels).resize(size, Image.Resampling.NEAREST), (round(item.x), round(item.y)))
        case Strokes():
            ink = (*(int(item.colour[at : at + 2], 16) for at in (1, 3, 5)), round(255 * item.opacity))
            for segment in item.segments:
                pen.line(_pixels(item, segment), fill=ink, width=max(round(item.thickness), 1))
        case Box():
            corner = item.x + item.width, item.y + item.height
            pen.rectangle((item.x, item.y, *corner), fill=item.fill, outline=item.outline)


def _element(item: Item) -> str:
    place = f'x="{item.x:g}" y="{item.y:g}"'
    match item:
        case Words():
            return (
                f'<text {place} dy="{0.9 * item.size:g}" font-size="{item.size}" fill="{item.colour}">'
                f"{escape(item.text)}</text>"
            )
        case Picture():
            data = base64.b64encode(png_bytes(_to_pil(item.pixels))).decode()
            return (
                f'<image {place} width="{item.width:g}" height="{item.height:g}" preserveAspectRatio="none" '
                f'style="image-rendering: pixelated" href="data:image/png;base64,{data}"/>'
            )
        case Strokes():
            ends = (_pixels(item, segment) for segment in item.segments)
            path = "".join(f"M{a:g} {b:g}L{c:g} {d:g}" for a, b, c, d in ends)
            ink = f'stroke="{item.colour}" stroke-opacity="{item.opacity:g}" stroke-width="{item.thickness:g}"'
            return f'<path d="{path}" fill="none" {ink}/>'
        case Box():
            edge = f' stroke="{item.outline}"' if item.outline else ""
            size = f'width="{item.width:g}" height="{item.height:g}"'
            return f'<rect {place} {size} fill="{item.fill or "none"}"{edge}/>'


def _pixels(strokes: Strokes, segment: Sequence[float]) -> tuple[float, float, float, float]:
    a, b, c, d = segment
    width, height = strokes.width, strokes.height
    return strokes.x + a * width, strokes.y + b * height, strokes.x + c * width, strokes.y + d * height


@cache
def _font(size: int) -> ImageFont.ImageFont | ImageFont.FreeTypeFont:
    return ImageFont.load_default(size)


def png_bytes(image: Image.Image) -> bytes:
    """The PNG file of an image."""
    file = io.BytesIO()
    image.save(file, "PNG")
    return file.getvalue()


def _to_pil(picture: Tensor) -> Image.Image:
    return Image.fromarray((picture.permute(1, 2, 0) * 255).round().to(torch.uint8).numpy().astype(np.uint8))
