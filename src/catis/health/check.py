"""The health check: one pass over images that says when a model will collapse under reduction, and of what."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import nn

from catis import hosts
from catis.api import applied, wanted_recipe
from catis.core.method import Method
from catis.core.schedule import RLike
from catis.data.batches import batches
from catis.data.corruptions import corrupt
from catis.data.images import BrokenImage
from catis.data.preprocessing import Preprocessing
from catis.diagnostics.report import Diagnosis
from catis.errors import CatisError
from catis.health.conclusion import conclude
from catis.health.critical_r import image_source, measure_critical_r
from catis.health.probes import ReducedProbe, VanillaProbe
from catis.inference import batch_images, evaluating
from catis.methods.catis import Catis
from catis.recipes import Recipe, RecipeLike
from catis.registry import create_method

Progress = Callable[[int, int], None]
"""Called after each batch with images done and images there are."""


def diagnose(
    model: nn.Module,
    data: str | Path | Sequence[Any],
    *,
    method: str | Method = "catis",
    r: RLike | None = None,
    corruption: str = "gaussian_noise",
    severity: int = 5,
    seed: int = 0,
    batch_size: int = 16,
    limit: int | None = None,
    workers: int = 1,
    preprocessing: Preprocessing | None = None,
    channels: bool = True,
    measure: bool = False,
    progress: Progress | None = None,
    recipe: RecipeLike | None = None,
    **options: Any,
) -> Diagnosis:
    """Check a model's health under token reduction, on images without labels. The model comes back as it was.

    Interrupting it (Ctrl-C) ends the pass and returns what was computed, with `complete` False.

    Args:
        model: A supported model, vanilla or reduced.
        data: A folder of images, or a sequence of uint8 (H, W, 3) arrays (or of pairs whose first item is one).
        method: Method to probe.
        r: Tokens to remove per block in the probe; by default half of all patch tokens over the whole depth.
        corruption: Any of the 15 ImageNet-C corruptions, for rho_s.
        severity: Its severity, 1 to 5.
        seed: Of the corruption's random numbers, together with each image's name.
        batch_size: Images per batch; memory grows with it and not with the number of images.
        limit: Use only this many images, spread over the folder.
        workers: Threads that read and corrupt images.
        preprocessing: How to prepare images; by default what timm's configuration of the model says.
        channels: Replay merges and evictions apart where the method does both (two more passes).
        measure: Also measure r_crit by bisection (about six more passes of the reduced model).
        progress: Called with (done, total) after each batch.
        recipe: A recipe to probe in place of method, r and options, with its calibrated weights.
        options: Options of the method.

    Raises:
        ValueError: A bad method, amount or option, or a recipe that does not fit the model.
        NoImagesError: The folder has no images.
        CatisError: Not one image could be read.

    Example:
        >>> import numpy as np, timm
        >>> model = timm.create_model("vit_tiny_patch16_224", depth=4, img_size=64, num_classes=10)
        >>> images = list(np.random.default_rng(0).integers(0, 256, (4, 64, 64, 3), dtype=np.uint8))
        >>> diagnose(model, images, method="tome", r=2).n
        4
    """
    built = method if isinstance(method, Method) else create_method(method, **options)
    probed = None if recipe is None else _fitting(model, recipe, measure, r=r, **options)
    prepared = preprocessing or hosts.find(model).preprocessing()
    source = image_source(data, prepared, limit)
    vanilla = VanillaProbe(model, built if isinstance(built, Catis) else Catis())
    reduced = ReducedProbe(model, built, r, recipe=probed, channels=channels)
    broken: list[BrokenImage] = []
    damage = partial(corrupt, name=corruption, severity=severity)
    complete = True
    with evaluating(model), torch.inference_mode():
        try:
            for done, batch in enumerate(batches(source, batch_size, workers, damage, seed)):
                broken += batch.broken
                if batch.pixels:
                    clean, damaged = (batch_images(images, prepared, model) for images in (batch.pixels, batch.damaged))
                    reduced.step(clean, vanilla.step(clean, damaged))
                if progress is not None:
                    progress(min((done + 1) * batch_size, len(source)), len(source))
        except KeyboardInterrupt:
            if vanilla.n == 0:
                raise
            complete = False
    if vanilla.n == 0:
        raise CatisError(f"none of {len(source)} images could be read; the first: {broken[0].name}: {broken[0].reason}")
    measured = None
    if measure and complete and reduced.agreement() is not None:
        measured = measure_critical_r(
            model, data, built, batch_size=batch_size, limit=limit, preprocessing=prepared, workers=workers
        )
    unread = tuple((item.name, item.reason) for item in broken)
    return conclude(vanilla, reduced, type(model).__name__, f"{corruption} {severity}", unread, complete, measured)


def _fitting(model: nn.Module, source: RecipeLike, measure: bool, **beside: Any) -> Recipe:
    """The recipe, once it is known to fit the model."""
    if measure:
        raise ValueError("r_crit is measured of a method at one r in all blocks, not of a recipe: drop one of the two")
    recipe = wanted_recipe(recipe=source, **beside)
    with applied(model, recipe=recipe):
        return recipe
