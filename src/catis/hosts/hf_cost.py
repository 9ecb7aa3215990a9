"""Sizes of transformers models that decide their multiply-adds, read from the shapes of their weights."""

from __future__ import annotations

from typing import Any

from torch import nn

from catis.hosts.cost import BlockCost, BlockLinears, ModelCost, linear_shapes, linears_in
from catis.hosts.hf_family import Family

ANY_SIZE = 32


def cost(model: Any, family: Family, linears: list[BlockLinears], input_size: tuple[int, ...] | None) -> ModelCost:
    """Sizes of a supported model for one input of `input_size`, (H, W) or (frames, H, W); the configured by default.

    Counted is the vision model itself. A classifier around it runs once per image and is not part of it.
    """
    projection = _patch_projection(model)
    head = model.head if getattr(model, "use_head", False) else None
    width = linears[0].attention[0].in_features
    attentions = [family.parts(block).attention for block in family.blocks_of(model)]
    windowed, patches = family.windowed(model), _num_patches(model.config, projection, input_size)
    windows = [_window(model) if block in windowed else None for block in range(len(attentions))]
    return ModelCost(
        num_patches=patches,
        blocks=tuple(_block(*block, width) for block in zip(attentions, linears, windows, strict=True)),
        embed_weights=projection.weight.numel(),
        head_weights=_head_weights(model, head, width) + _merger_weights(model, patches),
        pool_weights=0 if head is None else 2 * width * width,
        pool_width=0 if head is None else width,
    )


def _patch_projection(model: Any) -> Any:
    place = getattr(model, "embeddings", None) or model.patch_embed
    for module in place.modules():
        if isinstance(module, (nn.Conv2d, nn.Conv3d, nn.Linear)):
            return module
    raise AttributeError(f"{type(model).__name__} has no patch projection")


def _num_patches(config: Any, projection: Any, input_size: tuple[int, ...] | None) -> int:
    input_size = image_size(config) if input_size is None else input_size
    kernel = tuple(getattr(projection, "kernel_size", (config.patch_size, config.patch_size)))
    strides = tuple(getattr(projection, "stride", kernel))
    frames = getattr(config, "num_frames", None)
    if len(kernel) == 3 and len(input_size) == 2:  # a clip, or an image that is repeated to fill a temporal patch
        input_size = (kernel[0] if frames is None else frames, *input_size)
    patches = 1
    for length, width, stride in zip(input_size, kernel, strides, strict=True):
        patches *= (length - width) // stride + 1
    return int(patches * (1 - getattr(config, "mask_ratio", 0.0)))


def count_patches(model: Any, input_size: tuple[int, ...]) -> int:
    """Patches of one input of (H, W) or (frames, H, W)."""
    return _num_patches(model.config, _patch_projection(model), tuple(input_size))


def image_size(config: Any) -> tuple[int, int]:
    """(H, W) that a model is made for; of one that takes any size, that of its positions or of 32 x 32 patches."""
    size = getattr(config, "image_size", None)
    if hasattr(config, "num_mel_bins"):  # a spectrogram
        return config.num_mel_bins, config.max_length
    if size is None:
        side = round(config.num_patches**0.5) if hasattr(config, "num_patches") else ANY_SIZE
        size = side * config.patch_size
    return (size, size) if isinstance(size, int) else (int(size[0]), int(size[1]))


def _window(model: Any) -> int:
    """Patches in a window of Qwen2.5-VL, which holds whole cells of its patch merger."""
    cell = model.spatial_merge_size
    return int((model.window_size // cell // model.patch_size * cell) ** 2)


def _merger_weights(model: Any, patches: int) -> int:
    """What the patch mergers of Qwen's towers cost: a cell of patches at a time."""
    mergers = [model.merger, *getattr(model, "deepstack_merger_list", ())] if hasattr(model, "merger") else []
    return sum(_linear_weights(merger) * (patches // model.spatial_merge_size**2) for merger in mergers)


def _block(attention: Any, linears: BlockLinears, window: int | None, width: int) -> BlockCost:
    head_dim = getattr(attention, "head_dim", None) or attention.attention_head_size
    heads = getattr(attention, "num_heads", None) or attention.num_attention_heads
    shapes = linear_shapes(linears.attention), linear_shapes(linears.mlp)
    return BlockCost(width, heads, head_dim, *shapes, window, _key_value_weights(attention))


def _key_value_weights(attention: Any) -> int:
    """Weights that make keys and values, where these are layers of their own; only such models read prefix alone."""
    pairs = [("k_proj", "v_proj"), ("key", "value")]
    names = next((pair for pair in pairs if hasattr(attention, pair[0])), ())
    return sum(_linear_weights(getattr(attention, name)) for name in names)


def _head_weights(model: Any, head: Any, width: int) -> int:
    """Pooler, or the probe head's query, output and MLP."""
    if head is not None:
        return 2 * width * width + _linear_weights(head.mlp)
    pooler = getattr(model, "pooler", None)
    return 0 if pooler is None else _linear_weights(pooler)


def _linear_weights(module: nn.Module) -> int:
    return sum(inputs * outputs for inputs, outputs in linear_shapes(linears_in(module.modules())))
