"""Blocks of transformers that keep the older nesting: `attention.attention` projects, `attention.output` follows."""

from __future__ import annotations

from typing import Any

import torch.nn.functional as F
from torch import Tensor, nn

from catis.core.parts import BlockParts, Projection
from catis.hosts.hf_parts import HfBlockParts
from catis.hosts.hooks import PLAIN, Convention, heard_attention, refuse_hooks

IN_A_TUPLE = Convention(pack=lambda tokens: (tokens,), unpack=lambda output: output[0])
"""How Data2Vec's blocks and their attention return tokens."""


class NestedParts(HfBlockParts):
    """What the blocks with the older nesting of modules share: the projections lie one module further in."""

    projections, head_size, convention = ("query", "key", "value"), "attention_head_size", PLAIN

    @property
    def attention(self) -> Any:
        """The module that holds the projections."""
        return self.block.attention.attention

    def heard(self) -> BlockParts:
        """These parts, with whoever listens to the outer attention module, which ends with the output projection."""
        refuse_hooks(self.attention, "the attention module around it")
        return heard_attention(self, self.block.attention, self.convention)

    def output(self, heads: Tensor, features: Tensor) -> Tensor:
        """Output projection and dropout."""
        return self.block.attention.output(heads.transpose(1, 2).flatten(2), features)  # type: ignore[no-any-return]


class VideoMaeBlockParts(NestedParts):
    """VideoMAELayer."""

    def add_mlp(self, x: Tensor) -> Tensor:
        """Second half of the block; its output module adds the residual."""
        return self.block.output(self.block.intermediate(self.norm_mlp(x)), x)  # type: ignore[no-any-return]


class VitPoseBlockParts(NestedParts):
    """VitPoseBackboneLayer with one expert."""


class Data2VecBlockParts(NestedParts):
    """Data2VecVisionLayer without relative positions; its attention class says which kernel it is, not the config."""

    convention = IN_A_TUPLE

    def mix(self, projection: Projection, bias: Tensor | None) -> Tensor:
        """Fused or explicit attention, as the module is."""
        attn = self.attention
        query, key, value = projection.query, projection.key, projection.value
        if "Sdpa" in type(attn).__name__:
            drop = attn.config.attention_probs_dropout_prob if attn.training else 0.0
            return F.scaled_dot_product_attention(query, key, value, bias, drop, scale=projection.scale)
        logits = query @ key.transpose(-1, -2) * projection.scale
        return attn.dropout((logits if bias is None else logits + bias).softmax(-1)) @ value  # type: ignore[no-any-return]

    def add_attention(self, x: Tensor, update: Tensor) -> Tensor:
        """Residual with lambda_1 and DropPath."""
        return self.block.drop_path(_scaled(self.block.lambda_1, update)) + x  # type: ignore[no-any-return]

    def add_mlp(self, x: Tensor) -> Tensor:
        """Second half of the block, with lambda_2 and DropPath."""
        block = self.block
        update = block.output(block.intermediate(self.norm_mlp(x)))
        return block.drop_path(_scaled(block.lambda_2, update)) + x  # type: ignore[no-any-return]


def _scaled(scale: nn.Parameter | None, update: Tensor) -> Tensor:
    return update if scale is None else scale * update
