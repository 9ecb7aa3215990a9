"""What a method can see of one block, between attention and MLP; every derived quantity is computed on demand."""

from __future__ import annotations

from functools import reduce

import torch
from torch import Tensor

from catis.core.record import record
from catis.core.signals import as_shares, in_single


@record
class BlockView:
    """One block at the point where tokens are reduced.

    Attributes:
        block: Index of the block, from 0.
        depth: Number of blocks L.
        r: Patch tokens that must go, already capped by the budget contract.
        num_prefix: Prefix tokens P in front of the N_p patch tokens.
        has_cls: Whether token 0 is a CLS token.
        features: (B, N, C) Z, what the attention read: LN1 of the block's input.
        residual: (B, N, C) H, the residual stream after attention.
        query: (B, H, N, d) as the attention saw it.
        key: (B, H, N, d) as the attention saw it (rotated, in rotary models).
        content_key: (B, H, N, d) keys before rotation, so that similarity means content.
        scale: Factor on query . key.
        bias: (B, 1, 1, N) log-size bias that the attention had, or None.
        size: (B, N_p) float32 token sizes, or None while all are 1.
        previous_cls: (B, N_p) A_cls of the block before, carried to the tokens present, or None.
        explain: Whether the plan should carry notes (scores, thresholds) for a trace.
    """

    block: int
    depth: int
    r: int
    num_prefix: int
    has_cls: bool
    features: Tensor
    residual: Tensor
    query: Tensor
    key: Tensor
    content_key: Tensor
    scale: float
    bias: Tensor | None = None
    size: Tensor | None = None
    previous_cls: Tensor | None = None
    explain: bool = False

    @property
    def num_patches(self) -> int:
        """Patch tokens present, N_p."""
        return self.features.shape[1] - self.num_prefix

    def patch_features(self) -> Tensor:
        """(B, N_p, C) Z of the patch tokens."""
        return self.features[:, self.num_prefix :]

    def patch_residual(self) -> Tensor:
        """(B, N_p, C) H of the patch tokens."""
        return self.residual[:, self.num_prefix :]

    def metric(self) -> Tensor:
        """(B, N_p, d) K: content keys of the patch tokens, averaged over heads (ToMe's metric)."""
        return self.content_key[:, :, self.num_prefix :].mean(1)

    def summed_keys(self) -> Tensor:
        """(B, N_p, d) K summed over heads: as good as the mean for cosines. Few heads one by one, faster on CPU."""
        if torch.compiler.is_exporting():  # a node fewer per head, and a small slice in place of a large one
            return self.content_key.sum(1)[:, self.num_prefix :]
        keys = self.content_key[:, :, self.num_prefix :]
        if keys.device.type != "cpu" or not 2 <= keys.shape[1] <= 6:
            return keys.sum(1)
        first, second, *others = keys.unbind(1)
        return reduce(Tensor.add_, others, first + second)

    def unit_keys(self) -> Tensor:
        """(B, N_p, d) K at unit length, for cosines; a zero key stays zero, similar to nothing."""
        return unit_length(self.summed_keys())

    def cls_attention(self) -> Tensor | None:
        """(B, N_p) A_cls: CLS row of the softmaxed attention, mean over heads, renormalised over the patches.

        Computed apart from the attention, at O(N d), so that the attention keeps its fused kernel.
        """
        if not self.has_cls:
            return None
        rows = self._cls_logits().softmax(-1)
        return as_shares(in_single(rows[:, :, self.num_prefix :].sum(1)))

    def attention_map(self) -> Tensor:
        """(B, H, N, N) softmaxed attention. The fused kernel never makes it: this is a second, unfused pass."""
        return _softmaxed(self.query * self.scale, self.key, self.bias)

    def attention_received(self) -> Tensor:
        """(B, N_p) what each patch token gets of the attention, mean over heads and queries."""
        if self.query.device.type != "cpu" or torch.compiler.is_compiling():
            return _received(self.attention_map())[:, self.num_prefix :]
        # the map of one image stays in the cache, which takes less than half of the time
        parts = [self.query * self.scale, self.key]
        parts += [] if self.bias is None else [self.bias.expand(len(self.query), -1, -1, -1)]
        rows = [_received(_softmaxed(*image)) for image in zip(*(torch.split(part, 1) for part in parts), strict=True)]
        return torch.cat(rows)[:, self.num_prefix :]

    def _cls_logits(self) -> Tensor:
        """(B, H, N) logits of the CLS query, as one product: a block-diagonal matrix of the heads' queries times K.

        A product per head would first copy all keys, which are strided between queries and values. An exported graph
        has copied them anyway, for the attention.
        """
        if torch.compiler.is_exporting():
            logits = (self.key @ (self.query[:, :, :1] * self.scale).transpose(2, 3)).squeeze(3)
            return logits if self.bias is None else logits + self.bias[:, 0]
        batch, heads, tokens, width = self.key.shape
        query = self.query[:, :, 0] * self.scale
        apart = torch.eye(heads, dtype=query.dtype, device=query.device)[:, :, None]
        diagonal = (apart * query[:, :, None]).view(batch, heads, heads * width)
        keys = self.key.transpose(1, 2).reshape(batch, tokens, heads * width).transpose(1, 2)
        if self.bias is None:
            return torch.bmm(diagonal, keys)
        return torch.baddbmm(self.bias[:, 0].to(diagonal.dtype), diagonal, keys)


def _softmaxed(query: Tensor, key: Tensor, bias: Tensor | None = None) -> Tensor:
    logits = query @ key.transpose(-2, -1)
    return (logits if bias is None else logits + bias).softmax(-1)


def _received(attention: Tensor) -> Tensor:
    """(B, N) column means of (B, H, N, N); a product and not a `mean`: its rounding does not depend on B."""
    rows = attention.flatten(1, 2)
    share = rows.new_full((rows.shape[0], 1, rows.shape[1]), 1 / rows.shape[1])
    return torch.bmm(share, rows).squeeze(1)


def unit_length(vectors: Tensor) -> Tensor:
    """Vectors of unit length; zero vectors stay zero."""
    length: Tensor = torch.linalg.vector_norm(vectors, dim=-1, keepdim=True)
    return vectors / length.clamp_min(torch.finfo(vectors.dtype).tiny)
