"""Where a run's first weights come from: a fresh start that small ViTs like, or a shallower model of ours."""

from __future__ import annotations

import math

import torch
from timm.models.vision_transformer import VisionTransformer
from torch import Tensor, nn


def sincos_grid(width: int, side: int) -> Tensor:
    """Fixed 2-D sine-cosine position table, (side * side, width), used as a start for the learned one."""
    freqs = 1.0 / 50.0 ** (torch.arange(width // 4) / (width // 4))
    angle = torch.arange(side)[:, None] * freqs[None]
    one = torch.cat([angle.sin(), angle.cos()], dim=1)
    rows = one[:, None].expand(side, side, -1)
    cols = one[None].expand(side, side, -1)
    return torch.cat([rows, cols], dim=2).reshape(side * side, width)


def _mimetic_(qkv: nn.Linear, heads: int) -> None:
    """Start W_q W_k^T near the identity, so that early attention looks at similar tokens (and near positions)."""
    width = qkv.in_features
    per_head = width // heads
    for h in range(heads):
        rows = slice(h * per_head, (h + 1) * per_head)
        target = 0.7 * torch.randn(width, width) / math.sqrt(width) + 0.7 * torch.eye(width)
        u, s, vh = torch.linalg.svd(target)
        root = s[:per_head].sqrt()
        qkv.weight.data[:width][rows] = (u[:, :per_head] * root).T
        qkv.weight.data[width : 2 * width][rows] = vh[:per_head] * root[:, None]


def fresh_(model: VisionTransformer) -> None:
    """Initialise in place: sine-cosine positions, mimetic queries and keys, the rest as timm does."""
    side = math.isqrt(model.patch_embed.num_patches)
    table = sincos_grid(model.embed_dim, side)
    prefix = model.num_prefix_tokens
    with torch.no_grad():
        model.pos_embed.zero_()
        model.pos_embed[0, prefix:] = 0.5 * table
        for block in model.blocks:
            _mimetic_(block.attn.qkv, block.attn.num_heads)


def _plan(old: int, new: int) -> list[tuple[int, bool]]:
    """For each new block: which old block it starts from, and whether it is an inserted one."""
    extra = new - old
    if extra < 0 or (extra and extra % old and old % extra):
        raise ValueError(f"cannot grow {old} blocks into {new}: pick a depth that spreads them evenly")
    out = []
    for i in range(old):
        due = (i + 1) * extra // old - i * extra // old
        out += [(i, False), *[(i, True)] * due]
    return out


def grow_(model: VisionTransformer, state: dict[str, Tensor]) -> None:
    """Fill a deeper (or equally deep, or CLS-free) model from a shallower one's weights.

    Inserted blocks copy their neighbour but start as the identity: their attention projection and second
    MLP layer are zero. So the grown model computes what the shallow one did, up to the missing CLS token.
    """
    new = {k: v for k, v in state.items() if not k.startswith("blocks.")}
    old_depth = 1 + max(int(k.split(".")[1]) for k in state if k.startswith("blocks."))
    for at, (source, inserted) in enumerate(_plan(old_depth, len(model.blocks))):
        head = f"blocks.{source}."
        for key, value in state.items():
            if key.startswith(head):
                name = key.removeprefix(head)
                silent = inserted and name.startswith(("attn.proj", "mlp.fc2"))
                new[f"blocks.{at}.{name}"] = torch.zeros_like(value) if silent else value.clone()
    if model.cls_token is None:
        new.pop("cls_token")
        new["pos_embed"] = new["pos_embed"][:, 1:]
        new["fc_norm.weight"], new["fc_norm.bias"] = new.pop("norm.weight"), new.pop("norm.bias")
    model.load_state_dict(new)
