"""Theta by the paper's procedure: from rankings and correlations alone, without labels and without logits."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from catis.core.schedule import RLike, Schedule
from catis.inference import evaluating
from catis.methods.catis import Catis
from catis.tuning.pairs import paired_batches
from catis.tuning.signal_choice import SignalRow, SignalScan
from catis.tuning.triage_choice import TriageRow, best_triage, grid_of, pool_consistency, try_triage


@dataclass(frozen=True)
class ThetaChoice:
    """A Theta, and everything that was tried for it."""

    theta: Catis  # CATIS with the Theta that was chosen
    rho_s: float  # mean over blocks of rho_s of its fused signal
    default_rho_s: float  # the same of the default Theta
    triage: TriageRow  # what tau and evict_ratio of this Theta give
    signals: tuple[SignalRow, ...]  # every (gamma, w_cls, l_start) that was tried, the default first
    triages: tuple[TriageRow, ...]  # every (tau, evict_ratio) that was tried with the best of them
    n: int  # images

    @property
    def options(self) -> dict[str, Any]:
        """The five numbers of Theta, as `catis.apply` takes them."""
        names = ("gamma", "w_cls", "tau", "evict_ratio", "l_start")
        return {name: getattr(self.theta, name) for name in names}

    @property
    def allowed(self) -> bool:
        """Whether the paper's conditions on rho_off, P and E could be met; if not, the nearest was taken."""
        return self.triage.allowed


def choose_theta(
    model: nn.Module,
    clean: Tensor,
    damaged: Tensor,
    r: RLike,
    *,
    batch_size: int = 16,
    progress: Callable[[int, int], None] | None = None,
) -> ThetaChoice:
    """Choose Theta as the paper does, on images without labels. The model comes back as it was.

    First (gamma, w_cls, l_start) with the highest rho_s of the fused signal, mean over the blocks of the vanilla
    model. Then tau and evict_ratio: among those with which rho_off of the reduced model stays where vanilla's would be
    on as many tokens and with which P and E hold tokens in deep blocks, the one whose merge pool has the highest rho_s.

    Args:
        model: A supported model.
        clean: (n, 3, H, W) prepared images.
        damaged: The same images, corrupted and then prepared.
        r: Tokens to remove, in any spelling that `catis.apply` takes.
        batch_size: Images per batch.
        progress: Called with (done, total) passes.

    Raises:
        ValueError: No images, or two tensors that cannot be the same images.

    Example:
        >>> import timm
        >>> model = timm.create_model("vit_tiny_patch16_224", depth=3, img_size=64, num_classes=10)
        >>> images = torch.randn(2, 3, 64, 64, generator=torch.Generator().manual_seed(0))
        >>> choice = choose_theta(model, images, images.flip(3), r=2)
        >>> choice.rho_s >= choice.default_rho_s, sorted(choice.options)
        (True, ['evict_ratio', 'gamma', 'l_start', 'tau', 'w_cls'])
    """
    default, scan = Catis(), SignalScan(model, Catis())
    told = progress or (lambda done, total: None)
    with evaluating(model), torch.inference_mode():
        signals = scan.run(clean, damaged, batch_size)
        best = max(signals, key=lambda row: -1.0 if math.isnan(row.rho_s) else row.rho_s)
        theta = replace(default, gamma=best.gamma, w_cls=best.w_cls, l_start=best.l_start)
        candidates = grid_of(theta)
        told(1, len(candidates) + 2)
        pool = pool_consistency(model, clean, damaged, theta, batch_size)
        batches = [batch for batch, _ in paired_batches(model, clean, damaged, batch_size)]
        vanilla, schedule = scan.off.compute(), Schedule.parse(r)
        triages: list[TriageRow] = []
        for candidate in candidates:
            told(len(triages) + 2, len(candidates) + 2)
            triages.append(try_triage(model, batches, candidate, schedule, vanilla, pool[candidate.tau]))
        told(len(candidates) + 2, len(candidates) + 2)
    chosen = best_triage(triages)
    theta = replace(theta, tau=chosen.tau, evict_ratio=chosen.evict_ratio)
    return ThetaChoice(theta, best.rho_s, signals[0].rho_s, chosen, tuple(signals), tuple(triages), len(clean))
