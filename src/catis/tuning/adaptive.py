"""The adaptive schedule: spend where rho_s is high. One rule of the amplifier model, no search, a control for one."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from catis.diagnostics.estimates import Estimate
from catis.errors import CatisError
from catis.health.probes import VanillaProbe
from catis.inference import evaluating
from catis.methods.catis import Catis
from catis.tuning.pairs import paired_batches


@dataclass(frozen=True)
class AdaptiveShape:
    """How fast tokens go in each block, and what that was read from."""

    # Per block, rate of removal log(entering / kept) relative to the mean over the blocks that may remove.
    weights: tuple[float, ...]
    pairwise: tuple[Estimate, ...]  # per block, rho_s of the key cosines, which the weights follow
    fused: tuple[Estimate, ...]  # per block, rho_s of CATIS' fused signal


def adaptive_shape(
    model: nn.Module, clean: Tensor, damaged: Tensor, *, theta: Catis | None = None, batch_size: int = 16
) -> AdaptiveShape:
    """Measure rho_s of every block of the vanilla model, in one pass, and make a schedule's shape of it.

    The amplifier model says that an error made in a block is passed on by all later ones, and that merging errs where
    the ranking of pairs does not survive corruption. So each block removes at a rate proportional to its pairwise
    rho_s (`shape_of`); how much in all is for the budget to say.

    Args:
        model: A supported model; left as it is.
        clean: (n, 3, H, W) prepared images.
        damaged: The same images, corrupted and then prepared.
        theta: CATIS settings of the fused signal.
        batch_size: Images per batch.

    Raises:
        CatisError: No ranking survives in any block, so that the rule says nothing.

    Example:
        >>> import timm
        >>> model = timm.create_model("vit_tiny_patch16_224", depth=3, img_size=64, num_classes=10)
        >>> images = torch.randn(2, 3, 64, 64, generator=torch.Generator().manual_seed(0))
        >>> round(sum(adaptive_shape(model, images, images + 0.1).weights), 6)
        3.0
    """
    probe = VanillaProbe(model, theta or Catis())
    with evaluating(model), torch.inference_mode():
        for whole, corrupted in paired_batches(model, clean, damaged, batch_size):
            probe.step(whole, corrupted)
    rho_s = probe.consistency.compute()
    weights = shape_of([block.mean for block in rho_s["pairwise"]], probe.facts.windowed)
    return AdaptiveShape(tuple(weights), tuple(rho_s["pairwise"]), tuple(rho_s["fused"]))


def shape_of(rho_s: Sequence[float], windowed: Sequence[int] = ()) -> list[float]:
    """w(l) = max(rho_s(l), 0) / mean of the same over all blocks that may remove tokens; 0 where rho_s is not known.

    Tokens kept after block l are N_p exp(-s (w(0) + ... + w(l))) with one s for all blocks, which the budget decides;
    w = 1 everywhere is the same share in every block.

    Args:
        rho_s: Per block.
        windowed: Blocks that may remove nothing.

    Example:
        >>> shape_of([0.75, 0.5, 0.25])
        [1.5, 1.0, 0.5]
    """
    free = [block for block in range(len(rho_s)) if block not in windowed]
    known = {block: max(rho_s[block], 0.0) for block in free if math.isfinite(rho_s[block])}
    total = sum(known.values())
    if total <= 0:
        given = ", ".join(f"{value:.2f}" for value in rho_s)
        raise CatisError(f"rho_s is {given}: no ranking survives in any block, so that there is nothing to follow")
    return [len(free) * known.get(block, 0.0) / total for block in range(len(rho_s))]
