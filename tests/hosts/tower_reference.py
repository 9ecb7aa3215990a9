"""What a reduced vision tower must return, from the slow computation of hf_reference; nothing of catis is used."""

from __future__ import annotations

import sys
from typing import Any

import pytest
import torch
from torch import Tensor
from transformers import vision_utils

from tests.hosts import hf_reference as slow

R = 3


def in_double(model: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The tower in float64, also where transformers itself goes through float32."""

    def norm(self: Any, x: Tensor) -> Tensor:
        return self.weight * x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.variance_epsilon)

    def rotate(q: Tensor, k: Tensor, cos: Tensor, sin: Tensor) -> tuple[Tensor, Tensor]:
        cos, sin = cos.unsqueeze(-2), sin.unsqueeze(-2)
        half = q.shape[-1] // 2
        return tuple(x * cos + torch.cat([-x[..., half:], x[..., :half]], -1) * sin for x in (q, k))

    for module in model.modules():
        if type(module).__name__.endswith("VisionRMSNorm") or type(module).__name__ == "Qwen2_5_VLRMSNorm":
            monkeypatch.setattr(type(module), "forward", norm)
    home = sys.modules[type(model).__module__]
    if hasattr(home, "apply_rotary_pos_emb_vision"):
        monkeypatch.setattr(home, "apply_rotary_pos_emb_vision", rotate)
    return model.double()


def qwen_layer(block: Any, windowed: bool) -> slow.Layer:
    attn = block.attn
    width = attn.qkv.in_features
    weights, biases = attn.qkv.weight.split(width), attn.qkv.bias.split(width)
    query, key, value = (lambda x, w=w, b=b: x @ w.T + b for w, b in zip(weights, biases, strict=True))
    mlp = lambda x: block.mlp(block.norm2(x))  # noqa: E731
    return slow.Layer(block.norm1, query, key, value, attn.proj, lambda u: u, mlp, attn.num_heads, windowed)


def siglip_layer(layer: Any) -> slow.Layer:
    attn = layer.self_attn
    mlp = lambda x: layer.mlp(layer.layer_norm2(x))  # noqa: E731
    parts = (attn.q_proj, attn.k_proj, attn.v_proj, attn.out_proj)
    return slow.Layer(layer.layer_norm1, *parts, lambda u: u, mlp, attn.num_heads)


def internvl_layer(layer: Any) -> slow.Layer:
    attn = layer.attention
    query = lambda x: attn.q_norm(attn.q_proj(x))  # noqa: E731
    key = lambda x: attn.k_norm(attn.k_proj(x))  # noqa: E731
    mlp = lambda x: layer.lambda_2 * layer.mlp(layer.layernorm_after(x))  # noqa: E731
    scale = lambda u: layer.lambda_1 * u  # noqa: E731
    return slow.Layer(
        layer.layernorm_before, query, key, attn.v_proj, attn.projection_layer, scale, mlp, attn.num_heads
    )


def run(layers: list[slow.Layer], x: Tensor, prefix: int, method: str, rope: Any = None, window: Any = None) -> Any:
    """All layers on one image's (N, C) tokens; returns the slow tokens."""
    count = len(x) - prefix
    rope = [None] * count if rope is None else list(rope)
    start = slow.Tokens(x[:prefix], list(x[prefix:]), [[i] for i in range(count)], rope, window=window)
    return slow.run(layers, start, method, R, prefix > 0)


def grid_of(tokens: slow.Tokens) -> Tensor:
    return slow.full_grid(tokens, torch.stack(tokens.patches))


def own_values(tokens: slow.Tokens) -> Tensor:
    """Every patch with the last vector of its own plus what its group changed by since; evicted ones as in a grid."""
    grid = grid_of(tokens)
    for group in tokens.groups:
        for patch in group:
            grid[patch] = grid[patch] + tokens.offset.get(patch, 0.0)
    return grid


def qwen_answer(vit: Any, patches: Tensor, sizes: Tensor, method: str) -> tuple[Tensor, list[Tensor]]:
    """Merged features in the order of the image, and the deep features where the tower has them."""
    name = type(vit).__name__
    position_ids = vision_utils.get_vision_position_ids(sizes, 2)
    rows = torch.cat(vit.rotary_pos_emb(patches, position_ids), -1).double()
    x = vit.patch_embed(patches)
    if name.startswith("Qwen3"):
        index, weight = vision_utils.get_vision_interpolation_indices_and_weights(
            sizes, vit.num_grid_per_side, "bilinear", True, 2
        )
        x = x + (vit.pos_embed(index) * weight[:, :, None]).sum(1)
    full = getattr(vit, "fullatt_block_indexes", range(len(vit.blocks)))
    layers = [qwen_layer(block, index not in full) for index, block in enumerate(vit.blocks)]
    deep = getattr(vit, "deepstack_visual_indexes", [])
    merged, deeper, start = [], [[] for _ in deep], 0
    for _, height, width in sizes.tolist():
        part = slice(start, start + height * width)
        start += height * width
        order = torch.arange(height * width)
        window = [0] * (height * width)
        if name.startswith("Qwen2_5"):
            cells = vision_utils.get_vision_window_index(torch.tensor([[1, height, width]]), 2, 16, 4)[0]
            order = (cells[:, None] * 4 + torch.arange(4)).flatten()
            side = 16 // 4
            window = [int(r) // side * 100 + int(c) // side for r, c in position_ids[part][order]]
        arguments = (x[part][order], 0, method, rows[part][order], window)
        grid = grid_of(run(layers, *arguments))
        merged.append(vit.merger(grid)[torch.argsort(order[::4])])
        for place, block in enumerate(deep):
            below = grid_of(run(layers[: block + 1], *arguments))
            deeper[place].append(vit.deepstack_merger_list[place](below))
    return torch.cat(merged), [torch.cat(one) for one in deeper]
