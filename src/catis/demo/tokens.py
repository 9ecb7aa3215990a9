"""The picture of what CATIS kept, merged and evicted on four images."""

from __future__ import annotations

from PIL import Image
from torch import nn

from catis import hosts
from catis.api import applied
from catis.core.reduction import Reduction
from catis.evaluate.prepared import PreparedImages
from catis.inference import batch_images
from catis.pictures.canvas import below
from catis.pictures.classes import describe_change, name_classes
from catis.pictures.drawing import Look
from catis.pictures.formats import rasterise
from catis.pictures.tracing import trace

SHOWN, CLASSES = 4, 24


def token_picture(
    model: nn.Module, name: str, view: PreparedImages, before: list[int], reduction: Reduction
) -> tuple[Image.Image, str]:
    """Layouts of four images at four depths, and a caption that says what the model made of them.

    The images are taken at equal steps through the first 24, one of each class, and not picked by hand.

    Args:
        model: The model.
        name: Its name, for the caption.
        view: Images; fewer than four are all drawn.
        before: Class that the vanilla model predicts of each image of the view.
        reduction: What to draw.
    """
    few = min(len(view.pixels), CLASSES)
    chosen = list(range(0, few, max(few // SHOWN, 1)))[:SHOWN]
    with applied(model, reduction):
        traced = trace(model, batch_images(view.pixels[chosen], hosts.find(model).preprocessing(), model))
    after = hosts.find(model).classes(traced.output)
    assert after is not None
    called = name_classes(model)
    told = [
        f"Image {number + 1}: {describe_change(called(before[at]), called(now), called(int(view.about.labels[at])))}."
        for number, (at, now) in enumerate(zip(chosen, after.tolist(), strict=True))
    ]
    looks = [Look(heat_maps=False, legend=at == len(chosen) - 1) for at in range(len(chosen))]  # one legend, at the end
    figure = rasterise(below([traced.canvas(at, look=look) for at, look in enumerate(looks)]))
    head = f"{name}, {reduction}: {traced[0].tokens_in} patch tokens become {traced[-1].tokens_left}."
    return figure, " ".join([head, *told])
