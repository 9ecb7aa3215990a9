"""The two damage channels apart: a recorded reduction run again with only its merges, or only its evictions.

A reduced run's decisions are kept as provenance over the original patches. Replaying them on the full grid needs no
ragged shapes: a merged token is the mean written back to all its patches (as many equal keys are what proportional
attention's log(size) stands for), an evicted patch is hidden from attention. With both channels on this is the reduced
run itself, for size-weighted merges, proportional attention and positions that are not rotary; other blends are
replayed as the size-weighted mean.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor

from catis.core.block import BlockRecord, BlockRunner, BlockStep, Course
from catis.core.method import Method
from catis.core.parts import BlockParts
from catis.core.state import TokenState


@dataclass
class Decisions:
    """What a reduced run did to every original patch, block by block; `add` is a recorder.

    Attributes:
        home: Per block, (B, patches) a patch that stands for the group this patch is merged with.
        evicted: Per block, (B, patches) bool, whether the patch is gone.
    """

    home: list[Tensor] = field(default_factory=list)
    evicted: list[Tensor] = field(default_factory=list)

    def add(self, block: BlockRecord) -> None:
        """Take one block's decisions."""
        provenance = block.state.provenance
        assert provenance is not None, "a watched run always tracks provenance"
        gone = provenance < 0
        patch = torch.arange(provenance.shape[1], device=provenance.device).expand_as(provenance)
        first = torch.full_like(provenance, provenance.shape[1])
        first = first.scatter_reduce(1, provenance.clamp_min(0), patch.masked_fill(gone, patch.shape[1]), "amin")
        before = self.home[-1] if self.home else patch
        # A group that is evicted keeps the shape it had: the merge channel still needs it.
        self.home.append(torch.where(gone, before, first.gather(1, provenance.clamp_min(0))))
        self.evicted.append(gone)


@dataclass(frozen=True)
class Replay(Method):
    """Runs recorded decisions on the full grid, with either channel on or off.

    Attributes:
        decisions: Of the same batch of images.
        merge: Whether merges happen.
        evict: Whether evictions happen.
    """

    name: ClassVar[str] = "replay"
    decisions: Decisions = field(default_factory=Decisions)
    merge: bool = True
    evict: bool = True

    @property
    def block_runner(self) -> BlockRunner:
        """Blocks on the full grid."""
        return self._run_block

    def _run_block(self, parts: BlockParts, x: Tensor, state: TokenState, course: Course, index: int) -> BlockStep:
        """One block on all patches; sizes become 1 for present and 0 for evicted patches."""
        features = parts.norm(x)
        projection = parts.project(features, state.positions)
        bias = state.attention_bias(projection.query.dtype)  # log(0) hides what was evicted
        residual = parts.add_attention(x, parts.output(parts.mix(projection, bias), features))
        if self.merge:
            residual = _merge(residual, self.decisions.home[index], state.num_prefix)
        if self.evict:
            state = state.with_size((~self.decisions.evicted[index]).float())
        return BlockStep(parts.add_mlp(residual), state)


def _merge(x: Tensor, home: Tensor, num_prefix: int) -> Tensor:
    """Give every patch the mean of its group."""
    prefix, patches = x[:, :num_prefix], x[:, num_prefix:]
    index = home.unsqueeze(-1).expand_as(patches)
    total = torch.zeros_like(patches).scatter_add(1, index, patches)
    count = F.one_hot(home, home.shape[1]).sum(1).clamp_min(1).to(x.dtype)
    return torch.cat([prefix, (total / count.unsqueeze(-1)).gather(1, index)], 1)
