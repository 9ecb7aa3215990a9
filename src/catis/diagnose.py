"""The health check: one pass over plain images that says when a model will collapse under reduction, and of what."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from catis.core.method import Method
from catis.core.schedule import RLike
from catis.critical import batch_images, evaluating, image_source, measure_critical_r
from catis.data.corruptions import corrupt
from catis.data.images import BrokenImage, Preprocessing, batches
from catis.diagnostics.amplifier_fit import AmplifierFit, DualFit, fit_amplifier, fit_dual, jackknife_beta
from catis.diagnostics.correlation import matched_level
from catis.diagnostics.critical import CriticalR
from catis.diagnostics.distortion import Distortion
from catis.diagnostics.estimates import Estimate
from catis.diagnostics.prediction import predict_critical_r, steps_seen
from catis.diagnostics.report import Diagnosis, Layers
from catis.diagnostics.verdict import Verdict, judge
from catis.errors import CatisError
from catis.methods.catis import Catis
from catis.probe import ReducedProbe, VanillaProbe
from catis.registry import create_method

__all__ = ["Progress", "conclude", "diagnose", "off_rise"]

TOKENS_TO_TELL = 16
"""Fewest tokens at which rho_off still says something of the features: chance alone gives 0.21 there."""

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
    **options: Any,
) -> Diagnosis:
    """Check a model's health under token reduction, on images without labels. The model comes back as it was.

    Interrupting it (Ctrl-C) ends the pass and returns what was computed, with `complete` False.

    Args:
        model: A supported model, plain or reduced.
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
        options: Options of the method.

    Raises:
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
    prepared = preprocessing or Preprocessing.for_model(model)
    source = image_source(data, prepared, limit)
    vanilla = VanillaProbe(model, built if isinstance(built, Catis) else Catis())
    reduced = ReducedProbe(model, built, r, channels=channels)
    broken: list[BrokenImage] = []
    damage = partial(_damage, name=corruption, severity=severity)
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


def _damage(pixels: NDArray[np.uint8], seed: int, *, name: str, severity: int) -> NDArray[np.uint8]:
    return corrupt(pixels, name, severity, seed)


def conclude(
    vanilla: VanillaProbe,
    reduced: ReducedProbe,
    model: str,
    corruption: str,
    broken: tuple[tuple[str, str], ...] = (),
    complete: bool = True,
    measured: CriticalR | None = None,
) -> Diagnosis:
    """Fit, predict and judge what two probes have gathered."""
    distortion = reduced.distortion.compute()
    fit, dual = _fit(reduced, distortion), _fit_dual(reduced, distortion)
    distortion |= {name: channel.compute()["distortion"] for name, channel in reduced.apart.items()}
    predicted = _predict(reduced, fit)
    return Diagnosis(
        model=model,
        method=reduced.method.name,
        r=reduced.schedule.describe(),
        n=vanilla.n,
        depth=reduced.facts.depth,
        num_patches=reduced.num_patches,
        corruption=corruption,
        consistency=vanilla.consistency.compute(),
        vanilla=vanilla.off.compute(),
        reduced=reduced.off.compute(),
        distortion=distortion,
        amplifier=fit,
        dual=dual,
        agreement=reduced.agreement(),
        r_crit_predicted=predicted,
        r_crit_measured=measured,
        verdict=_judge(vanilla, reduced, distortion, predicted if measured is None else measured.r),
        broken=broken,
        complete=complete,
    )


def _judge(
    vanilla: VanillaProbe, reduced: ReducedProbe, distortion: dict[str, list[Estimate]], r_crit: int | None
) -> Verdict:
    amounts = set(reduced.schedule.amounts or ())
    removed = sum(_means(distortion["merged"])) + sum(_means(distortion["evicted"]))
    r = amounts.pop() if len(amounts) == 1 else removed / reduced.facts.depth
    return judge(reduced.agreement(), off_rise(vanilla.off.compute(), reduced.off.compute()), r, r_crit)


def off_rise(vanilla: Layers, reduced: Layers) -> float:
    """rho_off over vanilla's at the same token count, after the deepest block that leaves enough tokens to tell.

    With a handful of tokens every correlation is near 1 by chance alone, whatever the method did (two tokens: exactly
    1). Where no block leaves enough, the first one has to do.
    """
    enough = [layer for layer, e in enumerate(reduced["tokens"]) if e.n and e.mean >= TOKENS_TO_TELL]
    layer = max(enough, default=0)
    before, after = vanilla["tokens"][layer].mean, reduced["tokens"][layer].mean
    return reduced["rho_off"][layer].mean - matched_level(vanilla["rho_off"][layer].mean, round(before), round(after))


def _means(estimates: Sequence[Estimate]) -> list[float]:
    return [estimate.mean for estimate in estimates]


def _steps(probe: ReducedProbe, amounts: Sequence[float]) -> tuple[slice, list[float]]:
    """Blocks to fit, and the operations felt in each: a CLS token cannot feel the first block's reduction."""
    return slice(int(probe.facts.has_cls), None), steps_seen(list(amounts), probe.facts.has_cls)


def _fit(probe: ReducedProbe, distortion: dict[str, list[Estimate]]) -> AmplifierFit | None:
    merged, evicted = _means(distortion["merged"]), _means(distortion["evicted"])
    use, steps = _steps(probe, [a + b for a, b in zip(merged, evicted, strict=True)])
    measured = _means(distortion["distortion"])[use]
    if len(measured) < 3 or sum(steps) == 0 or max(measured) <= 0:
        return None
    fit = fit_amplifier(measured, steps[use])
    left = probe.distortion.leave_one_out().numpy()[:, use]
    if not np.isfinite(left).all():
        return fit
    low, high = jackknife_beta(fit, left, steps[use])
    return AmplifierFit(**{**fit.__dict__, "beta_low": low, "beta_high": high})


def _fit_dual(probe: ReducedProbe, distortion: dict[str, list[Estimate]]) -> DualFit | None:
    if not probe.apart:
        return None
    use, merged = _steps(probe, _means(distortion["merged"]))
    _, evicted = _steps(probe, _means(distortion["evicted"]))
    if len(merged[use]) < 3:
        return None
    apart = {name: _means(_of(channel))[use] for name, channel in probe.apart.items()}
    both = _means(distortion["distortion"])[use]
    return fit_dual(both, apart["merge_only"], apart["evict_only"], merged[use], evicted[use])


def _of(channel: Distortion) -> list[Estimate]:
    return channel.compute()["distortion"]


def _predict(probe: ReducedProbe, fit: AmplifierFit | None) -> int | None:
    if fit is None or probe.agreement() is None:
        return None
    return predict_critical_r(
        fit.channel, probe.flips.compute(), probe.schedule, probe.num_patches, probe.facts.has_cls
    )
