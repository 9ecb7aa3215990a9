"""Blocks of transformers' vision models, taken apart between attention and MLP; three layouts cover most families."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

from catis.core.parts import BlockParts, Projection
from catis.hosts.hooks import Convention, heard_attention

# Implementations known to add a float (B, 1, 1, N) mask to the logits. Flash kernels take none, and would drop it.
_ADDS_BIAS = ("eager", "sdpa")
# Attention of transformers returns its weights too, which a fused kernel does not have.
WITH_WEIGHTS = Convention(pack=lambda tokens: (tokens, None), unpack=lambda output: output[0])


@dataclass(frozen=True)
class HfBlockParts:
    """What the layouts share: separate projections, and attention by the implementation that the model is set to.

    A layout differs in the names below, and in what stands around the two residual sums.
    """

    norms: ClassVar[tuple[str, str]] = ("layernorm_before", "layernorm_after")
    """Attributes of the block that are LN1 and LN2."""
    projections: ClassVar[tuple[str, str, str]] = ("q_proj", "k_proj", "v_proj")
    """Attributes of the attention that make query, key and value."""
    last: ClassVar[str] = "o_proj"
    """Attribute of the attention that is its output projection."""
    head_size: ClassVar[str] = "head_dim"
    """Attribute of the attention that is the width of a head."""
    convention: ClassVar[Convention] = WITH_WEIGHTS
    """How the block calls its attention."""

    block: Any

    @property
    def attention(self) -> Any:
        """The module that holds the projections."""
        return self.block.attention

    def heard(self) -> BlockParts:
        """These parts, with whoever listens to the attention."""
        return heard_attention(self, self.attention, self.convention)

    def project(self, features: Tensor, positions: Tensor | None, rows: int | None = None) -> Projection:
        """The model's own query, key and value."""
        attn, (first, *others) = self.attention, self.projections
        size = getattr(attn, self.head_size)
        query = split_heads(getattr(attn, first)(features[:, :rows]), size)
        key, value = (split_heads(getattr(attn, name)(features), size) for name in others)
        return Projection(query, key, value, key, scale_of(attn))

    def mix(self, projection: Projection, bias: Tensor | None) -> Tensor:
        """Attention by the model's `attn_implementation`, read at every call, as the model itself does."""
        attn = self.attention
        implementation = attn.config._attn_implementation
        if bias is not None and implementation not in _ADDS_BIAS:
            raise ValueError(
                f"attn_implementation={implementation!r} cannot add log(size) to the logits: call "
                "model.set_attn_implementation('sdpa'), or apply with prop_attn=False"
            )
        run = ALL_ATTENTION_FUNCTIONS.get_interface(implementation, own_function(attn, "eager_attention_forward"))
        dropout = _dropout(attn) if attn.training else 0.0
        query, key, value = projection.query, projection.key, projection.value
        heads: Tensor = run(attn, query, key, value, bias, dropout=dropout, scaling=projection.scale)[0]
        return heads.transpose(1, 2)

    def output(self, heads: Tensor, features: Tensor) -> Tensor:
        """Output projection."""
        return getattr(self.attention, self.last)(heads.transpose(1, 2).flatten(2))  # type: ignore[no-any-return]

    def norm(self, x: Tensor) -> Tensor:
        """LN1."""
        return getattr(self.block, self.norms[0])(x)  # type: ignore[no-any-return]

    def norm_mlp(self, x: Tensor) -> Tensor:
        """LN2."""
        return getattr(self.block, self.norms[1])(x)  # type: ignore[no-any-return]

    def add_attention(self, x: Tensor, update: Tensor) -> Tensor:
        """First residual."""
        return x + update

    def add_mlp(self, x: Tensor) -> Tensor:
        """Second half of the block."""
        return x + self.block.mlp(self.norm_mlp(x))  # type: ignore[no-any-return]


class VitBlockParts(HfBlockParts):
    """ViTLayer, and its copies in DeiT, ViT-MAE and I-JEPA."""

    def add_attention(self, x: Tensor, update: Tensor) -> Tensor:
        """Residual with dropout."""
        return self.block.dropout(update) + x  # type: ignore[no-any-return]

    def add_mlp(self, x: Tensor) -> Tensor:
        """Second half of the block."""
        return self.block.dropout(self.block.mlp(self.norm_mlp(x))) + x  # type: ignore[no-any-return]


class DinoBlockParts(HfBlockParts):
    """Dinov2Layer (with and without registers) and DINOv3ViTLayer, whose keys are rotated."""

    norms = ("norm1", "norm2")

    def project(self, features: Tensor, positions: Tensor | None, rows: int | None = None) -> Projection:
        """Projections; with rotary positions (one row of cos and sin per patch token) also the model's rotation.

        The model infers the prefix from the number of rows, so they must be those of the tokens present.
        """
        unrotated = super().project(features, positions, rows)
        if positions is None:
            return unrotated
        cos, sin = (positions if positions.ndim == 2 else positions.unsqueeze(1)).chunk(2, -1)
        rotate = own_function(self.attention, "apply_rotary_pos_emb")
        query, key = rotate(unrotated.query if rows is None else unrotated.key, unrotated.key, cos, sin)
        query = query if rows is None else unrotated.query  # prefix tokens have no position
        return Projection(query, key, unrotated.value, unrotated.key, unrotated.scale)

    def add_attention(self, x: Tensor, update: Tensor) -> Tensor:
        """Residual with LayerScale and DropPath."""
        return self.block.drop_path(self.block.layer_scale1(update)) + x  # type: ignore[no-any-return]

    def add_mlp(self, x: Tensor) -> Tensor:
        """Second half of the block."""
        block = self.block
        return block.drop_path(block.layer_scale2(block.mlp(self.norm_mlp(x)))) + x  # type: ignore[no-any-return]


class ClipBlockParts(HfBlockParts):
    """CLIPEncoderLayer and SiglipEncoderLayer."""

    norms, last = ("layer_norm1", "layer_norm2"), "out_proj"
    convention = WITH_WEIGHTS._replace(keyword="hidden_states")

    @property
    def attention(self) -> Any:
        """The module that holds the projections."""
        return self.block.self_attn


def split_heads(tokens: Tensor, head_dim: int) -> Tensor:
    """(B, H, N, d) from (B, N, H * d)."""
    return tokens.view(*tokens.shape[:-1], -1, head_dim).transpose(1, 2)


def scale_of(attn: Any) -> float:
    """Factor on query . key, which the families spell in two ways, or not at all."""
    for name in ("scaling", "scale"):
        if hasattr(attn, name):
            return float(getattr(attn, name))
    return float(attn.attention_head_size**-0.5)


def _dropout(attn: Any) -> float:
    """The families spell the attention dropout in three ways."""
    for name in ("attention_dropout", "dropout_prob", "dropout"):
        if hasattr(attn, name):
            return float(getattr(attn, name))
    raise AttributeError(f"{type(attn).__name__} has none of the known names of the attention dropout")


def own_function(attn: torch.nn.Module, name: str) -> Any:
    """A function of the module that defines this attention class: each family has its own eager attention."""
    defining = next(kind for kind in type(attn).__mro__ if "forward" in vars(kind))
    return getattr(sys.modules[defining.__module__], name)
