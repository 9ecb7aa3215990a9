"""What goes on inside a model: rho_s and rho_off over depth, and a picture of what CATIS kept, merged and evicted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

import torch
from PIL import Image
from torch import nn

from catis import hosts
from catis.api import applied
from catis.core.reduction import Reduction
from catis.data.batches import batches
from catis.data.corruptions import corrupt
from catis.data.images import ImageArrays
from catis.demo.settings import Settings
from catis.diagnostics.correlation import matched_levels
from catis.diagnostics.estimates import PerBlock
from catis.evaluate.prepared import PreparedImages
from catis.health.probes import ReducedProbe, VanillaProbe
from catis.inference import batch_images
from catis.methods.catis import Catis
from catis.pictures.canvas import below
from catis.pictures.classes import describe_change, name_classes
from catis.pictures.drawing import Look
from catis.pictures.formats import rasterise
from catis.pictures.tracing import trace
from catis.registry import create_method

CORRUPTION = ("gaussian_noise", 5)
SHOWN, CLASSES = 4, 24


@dataclass(frozen=True)
class Probed:
    """What the probes saw of one model."""

    model: str  # zoo name
    r: int  # amount of the reduced runs
    n: int  # images
    consistency: PerBlock  # rho_s per signal and block, and "frobenius"
    vanilla: PerBlock  # rho_off of the vanilla model
    reduced: Mapping[str, PerBlock]  # rho_off of each method at r
    matched: tuple[float, ...]  # what vanilla's features would show on as many tokens as are left after each block


def probe(model: nn.Module, name: str, clean: PreparedImages, settings: Settings) -> Probed:
    """Probe one model: clean images beside noisy ones for rho_s, and every method at one r for rho_off."""
    r, preprocessing = settings.probe_amount(name), hosts.find(model).preprocessing()
    vanilla = VanillaProbe(model, Catis())
    reduced = {method: ReducedProbe(model, create_method(method), r) for method in settings.methods}
    damage = partial(corrupt, name=CORRUPTION[0], severity=CORRUPTION[1])
    source = ImageArrays(list(clean.pixels[: settings.probed]))
    with torch.inference_mode():
        for batch in batches(source, settings.batch, damage=damage, seed=settings.seed):
            images, noisy = (batch_images(pixels, preprocessing, model) for pixels in (batch.pixels, batch.damaged))
            reference = vanilla.step(images, noisy)
            for watched in reduced.values():
                watched.step(images, reference)
    off = vanilla.off.compute()
    seen = {method: watched.off.compute() for method, watched in reduced.items()}
    matched = tuple(matched_levels(off, seen[settings.methods[0]]))
    return Probed(name, r, vanilla.n, vanilla.consistency.compute(), off, seen, matched)


def token_picture(
    model: nn.Module, name: str, view: PreparedImages, before: list[int], reduction: Reduction
) -> tuple[Image.Image, str]:
    """Layouts of four images at four depths, and a caption that says what the model made of them.

    The images are taken at equal steps through the first 24, one of each class, and not picked by hand.
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
