"""rho_s and rho_off of a model over depth, vanilla once and every method beside it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

import torch
from torch import nn

from catis import hosts
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
from catis.registry import create_method

CORRUPTION = ("gaussian_noise", 5)


@dataclass(frozen=True)
class Probed:
    """What the probes saw of one model.

    Attributes:
        model: Zoo name.
        r: Amount of the reduced runs.
        n: Images.
        consistency: rho_s per signal and block, and "frobenius".
        vanilla: rho_off of the vanilla model.
        reduced: rho_off of each method at r.
        matched: What vanilla's features would show on as many tokens as are left after each block.
    """

    model: str
    r: int
    n: int
    consistency: PerBlock
    vanilla: PerBlock
    reduced: Mapping[str, PerBlock]
    matched: tuple[float, ...]


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
