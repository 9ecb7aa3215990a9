"""The picture of what CATIS kept, merged and evicted on four images."""

from __future__ import annotations

import torch
from PIL import Image
from torch import nn

from catis import zoo
from catis.api import applied
from catis.demo.images import View
from catis.pictures.drawing import Layout, layout_figure, stack
from catis.pictures.tracing import Trace, trace

__all__ = ["token_picture"]

SHOWN = 4


def token_picture(model: nn.Module, name: str, view: View, r: int) -> tuple[Image.Image, str]:
    """Layouts of four images at four depths, and a caption that says what the model made of them.

    The images are taken at equal steps through the first 24, one of each class, and not picked by hand.

    Args:
        model: The model.
        name: Its name, for the caption.
        view: Images; fewer than four are all drawn.
        r: Amount for CATIS.
    """
    classes = zoo.dataset("clean", n=1).classes
    chosen = list(range(0, min(len(view), len(classes)), max(min(len(view), len(classes)) // SHOWN, 1)))[:SHOWN]
    images, labels = view.images[chosen], view.labels[chosen].tolist()
    with torch.inference_mode():
        plain = model(images).argmax(-1).tolist()
        with applied(model, "catis", r=r):
            seen = trace(model, images)
    after = sorted({round(len(seen) * part / 4) for part in (1, 2, 3, 4)})
    figure = stack([_figure(seen, at, after) for at in range(len(chosen))])
    reduced = seen.output.argmax(-1).tolist()
    told = [_sentence(*(classes[c] for c in found)) for found in zip(labels, plain, reduced, strict=True)]
    head = f"{name}, CATIS r={r}: {seen[0].tokens_in} patch tokens become {seen[-1].tokens_left}. "
    return figure, head + " ".join(f"Image {at + 1}: {text}." for at, text in enumerate(told))


def _figure(seen: Trace, image: int, after: list[int]) -> Image.Image:
    blocks = [seen[number - 1] for number in after]
    layouts = [Layout(one.layer + 1, one.tokens_left, one.provenance[image], {}) for one in blocks]
    return layout_figure(seen.images[image], layouts)


def _sentence(truth: str, plain: str, reduced: str) -> str:
    if plain == reduced:
        return f"{truth}, " + ("right before and after" if plain == truth else f"seen as {plain} before and after")
    return f"{truth}, seen as {plain} before and as {reduced} after"
