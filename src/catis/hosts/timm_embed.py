"""A timm model fed a smaller image than it was given, inside its forward pass: images resized, positions resampled."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from timm.layers.patch_embed import PatchEmbed
from timm.layers.pos_embed import resample_abs_pos_embed
from timm.models.vision_transformer import VisionTransformer
from torch import Tensor

from catis.core.reduction import Reduction


def fixed_size(model: Any) -> str:
    """Why a model cannot be fed smaller images inside its forward pass; empty if it can."""
    if not isinstance(model, VisionTransformer):
        return f"{type(model).__name__} has rotary positions"
    if type(model.patch_embed).forward is not PatchEmbed.forward:
        return f"its patches come from a {type(model.patch_embed).__name__}"
    if not model.global_pool and model.attn_pool is None:
        return "it returns features on the grid of its patches"
    return ""


def embed_resized(model: Any, images: Tensor, reduction: Reduction) -> tuple[Tensor, None]:
    """Tokens of resized images, position embeddings resampled as timm does it for models of another size."""
    assert reduction.input_size is not None
    grid = model.patch_embed.proj(resized(images, reduction.input_size))  # (B, C, H, W)
    patches = model.patch_embed.norm(grid.flatten(2).transpose(1, 2))
    prefix = [
        token for name in ("cls_token", "dist_token", "reg_token") if (token := getattr(model, name, None)) is not None
    ]
    before = [token.expand(patches.shape[0], -1, -1) for token in prefix]
    if model.pos_embed is None:
        x = torch.cat([*before, patches], 1)
    elif model.no_embed_class:
        x = torch.cat([*before, patches + _positions(model, grid, 0)], 1)
    else:
        x = torch.cat([*before, patches], 1) + _positions(model, grid, model.num_prefix_tokens)
    return model.norm_pre(model.patch_drop(model.pos_drop(x))), None


def resized(images: Tensor, side: int) -> Tensor:
    """(B, 3, side, side) images, as an image library would resize them: bicubic, smoothed before they shrink.

    Example:
        >>> resized(torch.zeros(1, 3, 8, 8), 4).shape
        torch.Size([1, 3, 4, 4])
    """
    whole = images if images.dtype == torch.float64 else images.float()  # PyTorch has no half precision of it on CPUs
    return F.interpolate(whole, (side, side), mode="bicubic", antialias=True, align_corners=False).to(images.dtype)


def refuse_grid(reduction: Reduction) -> None:
    """Refuse a dense output under another input size, whose grid is not the one that the caller knows."""
    if reduction.input_size is not None:
        raise ValueError(
            f"the model resizes its images to {reduction.input_size} pixels, so its features are not on the grid of "
            "these images: apply without input_size (catis tune --without size)"
        )


def _positions(model: Any, grid: Tensor, prefix: int) -> Tensor:
    height, width = grid.shape[-2:]
    positions: Tensor = resample_abs_pos_embed(model.pos_embed, [height, width], num_prefix_tokens=prefix)
    return positions
