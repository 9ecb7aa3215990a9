"""What travels with the tokens from block to block inside one forward call, and nowhere else."""

from __future__ import annotations

from dataclasses import replace

import torch
import torch.nn.functional as F
from torch import Tensor

from catis.core.record import record


@record
class TokenState:
    """Companions of the patch tokens. A new one is made by each block; none is kept after the call.

    Attributes:
        num_prefix: Prefix tokens in front (CLS, distillation, registers); they are never touched.
        size: (B, N_p) float32, original patches each token stands for; None while every token is one patch.
        cls_attention: (B, N_p) A_cls of the block before, carried through its plan; None if not used.
        provenance: (B, patches at the start) index of the patch token that holds each original patch, EVICTED once
            it is gone; None when nobody asked for it.
        positions: (N_p, D) or (B, N_p, D) rotary positions; a merged token keeps its destination's.
        log_size: (B, 1, 1, P + N_p) what `attention_bias` gives, where whoever made `size` has made it as well.
        offset: (B, patches at the start, C) how far each original patch was from its token whenever tokens merged,
            added up; None when nobody asked for it.
        size_column: (B, P + N_p, 1) `size` with 1 for the prefix, as an exported graph carries it.

    Example:
        >>> state = TokenState.start(num_prefix=1, num_patches=3, batch=2, track=True)
        >>> state.provenance.tolist()
        [[0, 1, 2], [0, 1, 2]]
    """

    num_prefix: int
    size: Tensor | None = None
    cls_attention: Tensor | None = None
    provenance: Tensor | None = None
    positions: Tensor | None = None
    log_size: Tensor | None = None
    offset: Tensor | None = None
    size_column: Tensor | None = None

    @classmethod
    def start(
        cls,
        num_prefix: int,
        num_patches: int,
        batch: int,
        *,
        track: bool = False,
        own_values: bool = False,
        positions: Tensor | None = None,
        device: torch.device | None = None,
    ) -> TokenState:
        """State before the first block; `track` asks for provenance, `own_values` for offsets too."""
        provenance = torch.arange(num_patches, device=device).expand(batch, -1) if track else None
        offset = torch.zeros((), device=device) if own_values else None  # as wide as the tokens once some have merged
        return cls(num_prefix, provenance=provenance, positions=positions, offset=offset)

    def attention_bias(self, dtype: torch.dtype, with_prefix: bool = True) -> Tensor | None:
        """log(size) as an additive (B, 1, 1, N) attention mask: proportional attention (Bolya et al., 2023)."""
        if self.size is None:
            return None
        if self.log_size is not None and with_prefix and dtype == self.log_size.dtype:
            return self.log_size
        log_size = self.size.to(torch.promote_types(dtype, torch.float32)).log()
        if with_prefix:
            log_size = F.pad(log_size, (self.num_prefix, 0))
        return log_size[:, None, None, :].to(dtype)

    def with_size(self, size: Tensor) -> TokenState:
        """The same tokens with other sizes."""
        return replace(self, size=size, log_size=None, size_column=None)
