"""Sizes of timm models that decide their multiply-adds, read from the shapes of their weights."""

from __future__ import annotations

from typing import Any

from timm.models.eva import Eva
from torch import nn

from catis.errors import UnsupportedModelError
from catis.hosts.cost import BlockCost, BlockLinears, ModelCost, linear_shapes


def weights_of(*modules: nn.Module | None) -> int:
    """Weights (without biases) of all linear and convolution layers in some modules."""
    layers = (layer for module in modules if module is not None for layer in module.modules())
    return sum(layer.weight.numel() for layer in layers if isinstance(layer, (nn.Linear, nn.Conv2d)))


def cost(model: Any, linears: list[BlockLinears], input_size: tuple[int, ...] | None) -> ModelCost:
    """Sizes of a supported timm model for one image of `input_size` (H, W), the model's own by default."""
    embed = model.patch_embed
    if not hasattr(embed, "proj") or hasattr(embed, "backbone"):
        raise UnsupportedModelError(
            f"{type(embed).__name__} is no patch embedding by one convolution: its MACs are not counted"
        )
    height, width = embed.dynamic_feat_size(input_size or embed.img_size)
    pool, head = model.attn_pool, [model.head, getattr(model, "head_dist", None)]
    return ModelCost(
        num_patches=height * width,
        blocks=tuple(_block(*block, model.embed_dim) for block in zip(model.blocks, linears, strict=True)),
        embed_weights=weights_of(embed),
        head_weights=weights_of(*head) + (0 if pool is None else weights_of(pool.q, pool.proj, pool.mlp)),
        pool_weights=0 if pool is None else weights_of(pool.kv),
        pool_width=0 if pool is None else pool.num_heads * pool.head_dim * pool.latent_len,
        pool_prefix=isinstance(model, Eva) or bool(getattr(model, "pool_include_prefix", False)),
    )


def _block(block: Any, linears: BlockLinears, width: int) -> BlockCost:
    attn, attention, mlp = block.attn, linear_shapes(linears.attention), linear_shapes(linears.mlp)
    key_value = weights_of(attn.k_proj, attn.v_proj) if attn.qkv is None else 2 * weights_of(attn.qkv) // 3
    return BlockCost(width, attn.num_heads, attn.head_dim, attention, mlp, key_value_weights=key_value)
