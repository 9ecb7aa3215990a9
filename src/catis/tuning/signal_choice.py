"""First half of the paper's procedure: the fused signal whose ranking survives corruption best, in one vanilla pass."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

import torch
from torch import Tensor, nn

from catis import hosts
from catis.core.block import BlockRecord
from catis.core.reduction import Reduction
from catis.core.signals import activation, fuse, momentum, zscore
from catis.diagnostics.correlation import OffDiagonal
from catis.diagnostics.estimates import BlockMeans, bands
from catis.diagnostics.ranks import spearman
from catis.health.probes import Observer, watch
from catis.methods.catis import Catis
from catis.tuning.pairs import paired_batches

GAMMA = (0.0, 0.25, 0.5, 1.0)
W_CLS = (0.2, 0.4, 0.6, 0.8, 1.0)
L_START = (0, 2, 4, 6)
_NORM = "s_nf"


@dataclass(frozen=True)
class SignalRow:
    """One fused signal that was tried."""

    gamma: float  # momentum of s_cls
    w_cls: float  # weight of s_cls
    l_start: int  # first block that uses s_cls
    rho_s: float  # its rho_s, clean against corrupted, mean over images and then over blocks


class SignalScan:
    """rho_s of many fused signals at once: s_nf and A_cls of a block are computed once and fused in every way.

    Args:
        model: A supported model, in eval mode.
        default: The Theta that everything is compared with, and that is tried too.
    """

    def __init__(self, model: nn.Module, default: Catis) -> None:
        self.model, self.default = model, default
        self.facts = hosts.find(model).facts
        self.off = OffDiagonal()
        self._rho = BlockMeans()
        self._ways = list(dict.fromkeys([*product(GAMMA, W_CLS), (default.gamma, default.w_cls)]))

    def run(self, clean: Tensor, damaged: Tensor, batch_size: int = 16) -> list[SignalRow]:
        """One pass of the vanilla model over images and their corrupted versions; all rows, the default first."""
        for whole, corrupted in paired_batches(self.model, clean, damaged, batch_size):
            watch(self.model, Reduction(Observer()), torch.cat([whole, corrupted]), self._record)
        theta = self.default
        if not self.facts.has_cls:  # the fused signal is s_nf whatever Theta says
            return [self._row(theta.gamma, theta.w_cls, theta.l_start)]
        starts = [start for start in L_START if start < self.facts.depth]
        wanted = product(GAMMA, W_CLS, starts)
        return [self._row(*way) for way in dict.fromkeys([(theta.gamma, theta.w_cls, theta.l_start), *wanted])]

    def _record(self, block: BlockRecord) -> None:
        view, attention = block.view, block.state.cls_attention
        assert view is not None
        n = len(block.tokens) // 2
        self.off.update(block.index, block.tokens[:n, block.state.num_prefix :])
        norm = zscore(activation(view.patch_features().float()))
        self._compare(_NORM, block.index, [norm])
        if attention is None:
            return
        contexts = {gamma: zscore(momentum(attention.float(), view.previous_cls, gamma)) for gamma, _ in self._ways}
        self._compare("fused", block.index, [fuse(norm, contexts[gamma], w_cls) for gamma, w_cls in self._ways])

    def _compare(self, name: str, block: int, signals: Sequence[Tensor]) -> None:
        """Spearman between the clean half and the corrupted half of each (2 n, N_p) signal, in one sort of all."""
        n = len(signals[0]) // 2
        rho = spearman(torch.cat([s[:n] for s in signals]), torch.cat([s[n:] for s in signals]))
        for way, values in enumerate(rho.view(len(signals), n)):
            self._rho.update(f"{name} {way}", block, values)

    def _row(self, gamma: float, w_cls: float, l_start: int) -> SignalRow:
        blocks = self._rho[f"{_NORM} 0"]
        if self.facts.has_cls:
            fused = self._rho[f"fused {self._ways.index((gamma, w_cls))}"]
            blocks = [*blocks[:l_start], *fused[l_start:]]
        return SignalRow(gamma, w_cls, l_start, bands(blocks)["all"])
