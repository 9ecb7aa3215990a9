"""Blocks of timm models, taken apart between attention and MLP: `Block` (ViT, DeiT, DINOv2 ...) and `EvaBlock`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from timm.layers.pos_embed_sincos import apply_rot_embed_cat
from torch import Tensor, nn

from catis.core.parts import Projection
from catis.hosts.listening import is_hooked

Modules = tuple[nn.Module, ...]


class VitBlockParts:
    """A `timm.models.vision_transformer.Block` with a `timm.layers.Attention`.

    Its sub-modules are looked up here, all blocks in one go, and those that do nothing are left out.
    """

    def __init__(self, block: Any) -> None:
        inner, attn = block._modules, block.attn  # `block.norm1` is a call in Python, and every forward call asks
        attention = attn._modules
        self._norm, self._attn, self._qkv, self._heads = inner["norm1"], attn, attention["qkv"], attn.num_heads
        self._query_norm, self._key_norm = _acting(attention["q_norm"]), _acting(attention["k_norm"])
        self._output_norm, self._output = _acting(attention["norm"]), _acting(attention["proj"], attention["proj_drop"])
        self._scaled = _acting(inner["ls1"], inner["drop_path1"])
        self._mlp = _acting(inner["norm2"], inner["mlp"], inner["ls2"], inner["drop_path2"])

    def norm(self, x: Tensor) -> Tensor:
        """LN1."""
        return self._norm(x)  # type: ignore[no-any-return]

    def project(self, features: Tensor, positions: Tensor | None, rows: int | None = None) -> Projection:
        """The model's own qkv, q_norm and k_norm."""
        if rows is None:
            query, key, value = _split_heads(self._qkv(features), self._heads)
        else:
            query, key, value = _split_rows(self._qkv, None, features, rows, self._heads)
        query, key = _through(self._query_norm, query), _through(self._key_norm, key)
        return Projection(query, key, value, key, self._attn.scale)

    def mix(self, projection: Projection, bias: Tensor | None) -> Tensor:
        """Fused or explicit attention, as the module is set."""
        return _mix(self._attn, projection, bias)

    def output(self, heads: Tensor, features: Tensor) -> Tensor:
        """Scale norm, gate and projection."""
        return _output(self._output_norm, self._attn.gate, self._output, heads, features)

    def add_attention(self, x: Tensor, update: Tensor) -> Tensor:
        """Residual with LayerScale and DropPath."""
        return x + _through(self._scaled, update)

    def add_mlp(self, x: Tensor) -> Tensor:
        """Second half of the block."""
        return x + _through(self._mlp, x)


@dataclass(frozen=True)
class EvaBlockParts:
    """A `timm.models.eva.EvaBlock` (EVA-02, DINOv3, PE) with EvaAttention or AttentionRope."""

    block: Any
    index: int  # its index, which picks its part of a depth-dependent (mixed) rope
    mixed: tuple[int, int] | None  # (depth, heads) of a mixed rope, None for one rope shared by all blocks

    def norm(self, x: Tensor) -> Tensor:
        """LN1."""
        return self.block.norm1(x)  # type: ignore[no-any-return]

    def project(self, features: Tensor, positions: Tensor | None, rows: int | None = None) -> Projection:
        """The model's own projections and norms; prefix tokens are not rotated."""
        attn = self.block.attn
        query, key, value = self._qkv(features, rows)
        query, content_key = attn.q_norm(query), attn.k_norm(key)
        key = content_key
        if positions is not None:
            rope = self._rope(positions)
            query = (query if rows is not None else _rotate(attn, query, rope)).type_as(value)
            key = _rotate(attn, key, rope).type_as(value)
        groups = getattr(attn, "num_kv_groups", 1)
        if groups > 1:
            key, value = key.repeat_interleave(groups, dim=1), value.repeat_interleave(groups, dim=1)
        return Projection(query, key, value, content_key, attn.scale)

    def mix(self, projection: Projection, bias: Tensor | None) -> Tensor:
        """Fused or explicit attention, as the module is set."""
        return _mix(self.block.attn, projection, bias)

    def output(self, heads: Tensor, features: Tensor) -> Tensor:
        """Scale norm, gate and projection."""
        attn = self.block.attn
        return _output((attn.norm,), attn.gate, (attn.proj, attn.proj_drop), heads, features)

    def add_attention(self, x: Tensor, update: Tensor) -> Tensor:
        """Residual with gamma_1 and DropPath."""
        gamma = self.block.gamma_1
        return x + self.block.drop_path1(update if gamma is None else gamma * update)  # type: ignore[no-any-return]

    def add_mlp(self, x: Tensor) -> Tensor:
        """Second half of the block, with gamma_2."""
        block = self.block
        update = block.mlp(block.norm2(x))
        return x + block.drop_path2(update if block.gamma_2 is None else block.gamma_2 * update)  # type: ignore[no-any-return]

    def _qkv(self, features: Tensor, rows: int | None) -> tuple[Tensor, Tensor, Tensor]:
        attn = self.block.attn
        if attn.qkv is None:
            query, key, value = attn.q_proj(features[:, :rows]), attn.k_proj(features), attn.v_proj(features)
            return _heads(query, attn.head_dim), _heads(key, attn.head_dim), _heads(value, attn.head_dim)
        apart = getattr(attn, "q_bias", None) is not None  # AttentionRope keeps its bias inside the linear layer
        bias = torch.cat((attn.q_bias, attn.k_bias, attn.v_bias)) if apart else None
        if rows is not None:
            return _split_rows(attn.qkv, bias, features, rows, attn.num_heads)
        if bias is None:
            return _split_heads(attn.qkv(features), attn.num_heads)
        if attn.qkv_bias_separate:
            return _split_heads(attn.qkv(features) + bias, attn.num_heads)
        return _split_heads(F.linear(features, attn.qkv.weight, bias), attn.num_heads)

    def _rope(self, positions: Tensor) -> Tensor:
        """Undo `pack_rope` for this block: (N_p, D), (B, 1, N_p, D), (H, N_p, D) or (B, H, N_p, D)."""
        if self.mixed is None:
            return positions if positions.ndim == 2 else positions.unsqueeze(1)
        rope: Tensor = positions.unflatten(-1, (*self.mixed, -1))  # type: ignore[no-untyped-call]
        return rope.select(-3, self.index).transpose(-3, -2)


def pack_rope(rope: Tensor | None, mixed: bool) -> Tensor | None:
    """Rotary embedding as one row per patch token, (N_p, D) or (B, N_p, D), so that a plan can be applied to it."""
    if rope is None:
        return None
    if mixed:  # (depth, H, N, D), or (depth, B, H, N, D) after patch dropout
        return rope.movedim(-2, -4).flatten(-3) if rope.ndim == 4 else rope.permute(1, 3, 0, 2, 4).flatten(2)
    return rope.squeeze(1) if rope.ndim == 4 else rope


def _acting(*modules: nn.Module) -> Modules:
    """Those of these modules that do anything. A block has seven that do not, as long as nobody hooks them."""
    return tuple(module for module in modules if not _is_idle(module))


def _is_idle(module: nn.Module) -> bool:
    idle = type(module) is nn.Identity or (type(module) is nn.Dropout and not module.training)
    return idle and not is_hooked(module)


def _through(modules: Modules, x: Tensor) -> Tensor:
    for module in modules:
        x = module(x)
    return x


def _split_heads(qkv: Tensor, num_heads: int) -> tuple[Tensor, Tensor, Tensor]:
    batch, tokens, _ = qkv.shape
    query, key, value = qkv.reshape(batch, tokens, 3, num_heads, -1).permute(2, 0, 3, 1, 4).unbind(0)
    return query, key, value


def _split_rows(
    qkv: nn.Module, bias: Tensor | None, features: Tensor, rows: int, num_heads: int
) -> tuple[Tensor, Tensor, Tensor]:
    """Queries of the first `rows` tokens, keys and values of all, by the two parts of the one linear layer."""
    if type(qkv) is not nn.Linear:  # quantised or adapted: its weight may not be the whole of it
        joined = qkv(features) if bias is None else qkv(features) + bias
        query, key, value = _split_heads(joined, num_heads)
        return query[:, :, :rows], key, value
    bias, width = qkv.bias if bias is None else bias, qkv.out_features // 3
    of_query, of_rest = (None, None) if bias is None else (bias[:width], bias[width:])
    query = F.linear(features[:, :rows], qkv.weight[:width], of_query)
    rest = F.linear(features, qkv.weight[width:], of_rest)
    key, value = (_heads(part, width // num_heads) for part in rest.chunk(2, -1))
    return _heads(query, width // num_heads), key, value


def _heads(tokens: Tensor, head_dim: int) -> Tensor:
    heads: Tensor = tokens.unflatten(-1, (-1, head_dim))  # type: ignore[no-untyped-call]
    return heads.transpose(1, 2)


def _rotate(attn: Any, tokens: Tensor, rope: Tensor) -> Tensor:
    prefix = attn.num_prefix_tokens
    rotated = apply_rot_embed_cat(tokens[:, :, prefix:], rope, half=attn.rotate_half)
    return torch.cat([tokens[:, :, :prefix], rotated], dim=2)


def _mix(attn: Any, projection: Projection, bias: Tensor | None) -> Tensor:
    query, key, value = projection.query, projection.key, projection.value
    if attn.fused_attn:
        drop = attn.attn_drop.p if attn.training else 0.0
        scale = None if projection.scale == attn.scale else projection.scale  # the kernel's own, as in the model
        return F.scaled_dot_product_attention(query, key, value, attn_mask=bias, dropout_p=drop, scale=scale)
    logits = (query * projection.scale) @ key.transpose(-2, -1)
    weights = (logits if bias is None else logits + bias).softmax(dim=-1)
    return attn.attn_drop(weights) @ value  # type: ignore[no-any-return]


def _output(norms: Modules, gate: nn.Module | None, projections: Modules, heads: Tensor, features: Tensor) -> Tensor:
    joined = _through(norms, heads.transpose(1, 2).flatten(2))
    if gate is not None:
        joined = joined * gate(features).sigmoid()
    return _through(projections, joined)
