"""Sizes of transformers models that decide their multiply-adds, read from the shapes of their weights."""

from __future__ import annotations

from typing import Any

from torch import nn

from catis.hosts.cost import BlockCost, ModelCost, linear_shapes, linears_in
from catis.hosts.handle import BlockLinears
from catis.hosts.hf_families import Family

__all__ = ["cost"]


def cost(model: Any, family: Family, linears: list[BlockLinears], input_size: tuple[int, ...] | None) -> ModelCost:
    """Sizes of a supported model for one input of `input_size`, (H, W) or (frames, H, W); the configured by default.

    Counted is the vision model itself. A classifier around it runs once per image and is not part of it.
    """
    projection = _patch_projection(model)
    head = model.head if getattr(model, "use_head", False) else None
    width = model.config.hidden_size
    attentions = (family.parts(block).attention for block in family.blocks_of(model))
    return ModelCost(
        num_patches=_num_patches(model.config, projection, input_size),
        blocks=tuple(_block(*block, width) for block in zip(attentions, linears, strict=True)),
        embed_weights=projection.weight.numel(),
        head_weights=_head_weights(model, head, width),
        pool_weights=0 if head is None else 2 * width * width,
        pool_width=0 if head is None else width,
    )


def _patch_projection(model: Any) -> Any:
    for module in model.embeddings.modules():
        if isinstance(module, (nn.Conv2d, nn.Conv3d)):
            return module
    raise AttributeError(f"{type(model).__name__}.embeddings has no patch convolution")


def _num_patches(config: Any, projection: Any, input_size: tuple[int, ...] | None) -> int:
    if input_size is None:
        size = config.image_size
        input_size = (size, size) if isinstance(size, int) else tuple(size)
    if len(projection.kernel_size) == 3 and len(input_size) == 2:
        input_size = (config.num_frames, *input_size)
    patches = 1
    for length, step in zip(input_size, projection.kernel_size, strict=True):
        patches *= length // step
    return int(patches * (1 - getattr(config, "mask_ratio", 0.0)))


def _block(attention: Any, linears: BlockLinears, width: int) -> BlockCost:
    head_dim = getattr(attention, "head_dim", None) or attention.attention_head_size
    heads = getattr(attention, "num_heads", None) or attention.num_attention_heads
    return BlockCost(width, heads, head_dim, linear_shapes(linears.attention), linear_shapes(linears.mlp))


def _head_weights(model: Any, head: Any, width: int) -> int:
    """Pooler, or the probe head's query, output and MLP."""
    if head is not None:
        return 2 * width * width + _linear_weights(head.mlp)
    pooler = getattr(model, "pooler", None)
    return 0 if pooler is None else _linear_weights(pooler)


def _linear_weights(module: nn.Module) -> int:
    return sum(inputs * outputs for inputs, outputs in linear_shapes(linears_in(module.modules())))
