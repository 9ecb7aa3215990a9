"""Blocks of the vision towers of multimodal models, taken apart between attention and MLP."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

from catis.core.parts import Projection
from catis.hosts.hf_parts import HfBlockParts, own_function, scale_of, split_heads
from catis.hosts.hooks import PLAIN


class Windows(NamedTuple):
    """Windows that attention has for an image, and places in each: as many as the largest has patches."""

    number: int
    size: int


class InternVlBlockParts(HfBlockParts):
    """InternVLVisionLayer: norms of whole queries and keys, and scales that are bare parameters."""

    def project(self, features: Tensor, positions: Tensor | None, rows: int | None = None) -> Projection:
        """The model's own projections, with q_norm and k_norm before the heads are split."""
        attn = self.attention
        query, key, value = (
            attn.q_norm(attn.q_proj(features[:, :rows])),
            attn.k_norm(attn.k_proj(features)),
            attn.v_proj(features),
        )
        query, key, value = (split_heads(tokens, attn.head_dim) for tokens in (query, key, value))
        return Projection(query, key, value, key, scale_of(attn))

    def output(self, heads: Tensor, features: Tensor) -> Tensor:
        """Output projection and dropout."""
        attn = self.attention
        return attn.projection_dropout(attn.projection_layer(heads.transpose(1, 2).flatten(2)))  # type: ignore[no-any-return]

    def add_attention(self, x: Tensor, update: Tensor) -> Tensor:
        """Residual with lambda_1."""
        return self.block.lambda_1 * update + x  # type: ignore[no-any-return]

    def add_mlp(self, x: Tensor) -> Tensor:
        """Second half of the block, with lambda_2."""
        block = self.block
        return block.lambda_2 * block.dropout(block.mlp(self.norm_mlp(x))) + x  # type: ignore[no-any-return]


@dataclass(frozen=True)
class QwenBlockParts(HfBlockParts):
    """Vision blocks of Qwen2-VL, Qwen2.5-VL and Qwen3-VL, for a batch of images of one size.

    Positions are a row of cos and sin for every token, and behind them its place among the windows. A merged token
    keeps the row of its destination, so it also stays in that token's window.
    """

    norms, last, convention = ("norm1", "norm2"), "proj", PLAIN
    # The windows that a windowed block attends in; None where every token sees all of its image.
    windows: Windows | None = None

    @property
    def attention(self) -> Any:
        """The module that holds the projections."""
        return self.block.attn

    def project(self, features: Tensor, positions: Tensor | None, rows: int | None = None) -> Projection:
        """The model's own qkv and rotation."""
        assert positions is not None
        assert rows is None, "these models have no prefix tokens to compute alone"
        attn = self.attention
        query, key, value = attn.qkv(features).unflatten(-1, (3, attn.num_heads, -1)).unbind(2)  # (B, N, H, d)
        cos, sin = positions[..., :-1].chunk(2, -1)
        turned = own_function(attn, "apply_rotary_pos_emb_vision")(query, key, cos, sin)
        query, turned_key, value, key = (tokens.transpose(1, 2) for tokens in (*turned, value, key))
        return Projection(query, turned_key, value, key, scale_of(attn), positions[..., -1].long())

    def mix(self, projection: Projection, bias: Tensor | None) -> Tensor:
        """Attention over all tokens of an image, or inside each window."""
        if self.windows is None:
            return super().mix(projection, bias)
        return self._mix_windows(projection, bias, self.windows)

    def _mix_windows(self, projection: Projection, bias: Tensor | None, windows: Windows) -> Tensor:
        """Every token at its place, windows as a batch, and places that are empty masked.

        The places stay as many as at the start: windows are small, so their products are about a hundredth of a block,
        and shapes do not depend on the image.
        """
        assert projection.places is not None
        batch, heads, _, width = projection.query.shape
        index = projection.places[:, None, :, None].expand_as(projection.query)

        def spread(tokens: Tensor) -> Tensor:
            empty = tokens.new_zeros(batch, heads, windows.number * windows.size, width)
            placed = empty.scatter(2, index, tokens).view(batch, heads, *windows, width)
            return placed.transpose(1, 2).flatten(0, 1)

        query, key, value = (spread(tokens) for tokens in (projection.query, projection.key, projection.value))
        mask = self._window_mask(projection, bias, windows)
        mixed = super().mix(projection._replace(query=query, key=key, value=value), mask)  # (B * W, H, n, d)
        apart = mixed.reshape(batch, windows.number, heads, windows.size, width)
        return apart.transpose(1, 2).flatten(2, 3).gather(2, index)

    def _window_mask(self, projection: Projection, bias: Tensor | None, windows: Windows) -> Tensor:
        """(B * W, 1, 1, n) log(size) at places with a token, the lowest number elsewhere."""
        places, like = projection.places, projection.query
        assert places is not None
        sizes = like.new_zeros(places.shape) if bias is None else bias[:, 0, 0]
        lowest = torch.finfo(like.dtype).min
        mask = like.new_full((len(places), windows.number * windows.size), lowest).scatter(1, places, sizes)
        return mask.view(-1, 1, 1, windows.size)
