"""The forward passes of a timm model under reduction: what its class runs in place of those that touch the tokens."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import torch.nn.functional as F
from timm.models._features import feature_take_indices
from timm.models.eva import Eva
from torch import Tensor, nn

from catis.core.block import BlockRecord, Recorder, run_blocks
from catis.core.execute import unmerge, weighted_mean
from catis.core.parts import BlockParts
from catis.core.reduction import Reduction
from catis.core.state import TokenState
from catis.hosts.hooks import around_blocks, heard_attention, run_heard
from catis.hosts.listening import has_hooks, is_watched
from catis.hosts.timm_embed import embed_resized, refuse_grid
from catis.hosts.timm_parts import EvaBlockParts, VitBlockParts, pack_rope
from catis.native.accelerator import accelerator_for


def forward(
    model: Any,
    reduction: Reduction,
    x: Tensor,
    attn_mask: Tensor | None = None,
    is_causal: bool = False,
    *,
    record: Recorder | None = None,
) -> Any:
    """Classify images under a reduction, watched by `record` if given."""
    _refuse_masks(attn_mask, is_causal)
    unpooled = not model.global_pool and model.attn_pool is None
    prefix_only = bool(reduction.head_only) and record is None and not _is_heard(model)
    track = unpooled or record is not None
    tokens, state = _tokens(model, reduction, x, track=track, record=record, prefix_only=prefix_only)
    if unpooled:
        return model.forward_head(unmerge(model.norm(tokens), state))
    return _head(model, reduction, model.norm(tokens), state)


def forward_features(
    model: Any, reduction: Reduction, x: Tensor, attn_mask: Tensor | None = None, is_causal: bool = False
) -> Tensor:
    """Features of the full grid: merged patches get their group's vector, evicted ones the survivors' mean."""
    _refuse_masks(attn_mask, is_causal)
    refuse_grid(reduction)
    tokens, state = _tokens(model, reduction, x, track=True)
    return unmerge(model.norm(tokens), state)


def forward_intermediates(
    model: Any, reduction: Reduction, x: Tensor, indices: int | list[int] | None = None, **options: Any
) -> Any:
    """As timm's `forward_intermediates`, with full-grid maps from the reduced blocks."""
    _refuse_masks(options.pop("attn_mask", None), options.pop("is_causal", False))
    refuse_grid(reduction)
    return _intermediates(model, reduction, x, indices, **options)


def _is_heard(model: Any) -> bool:
    """Whether somebody listens where a last block for the prefix tokens alone would show."""
    return has_hooks(model.blocks) or is_watched(model.blocks[-1]) or is_watched(model.norm)


def _refuse_masks(attn_mask: Tensor | None, is_causal: bool) -> None:
    if attn_mask is not None or is_causal:
        raise ValueError(
            "attn_mask and is_causal were given, but a mask over the full sequence has no meaning once tokens merge; "
            "call catis.remove(model) first, or apply with r=0"
        )


def _tokens(
    model: Any,
    reduction: Reduction,
    images: Tensor,
    track: bool,
    record: Recorder | None = None,
    blocks: int | None = None,
    prefix_only: bool = False,
    own_values: bool = False,
) -> tuple[Tensor, TokenState]:
    """Embed, then run the blocks (the first `blocks` of them) with reduction."""
    x, positions = _embed(model, images) if reduction.input_size is None else embed_resized(model, images, reduction)
    prefix, device = model.num_prefix_tokens, x.device
    start = partial(TokenState.start, prefix, x.shape[1] - prefix, x.shape[0], positions=positions, device=device)
    state = start(track=track, own_values=own_values)

    def run(x: Tensor) -> tuple[Tensor, TokenState]:
        return run_blocks(
            _parts(model),
            x,
            state,
            reduction,
            has_cls=model.cls_token is not None,
            checkpointing=model.grad_checkpointing,
            accelerator=accelerator_for(x),
            record=record,
            around=around_blocks(model.blocks),
            stop=blocks,
            prefix_only=prefix_only,
        )

    called = blocks is None and isinstance(model.blocks, nn.Sequential)  # a list of modules is never called
    return run_heard(model.blocks if called else None, run, x)


def _embed(model: Any, images: Tensor) -> tuple[Tensor, Tensor | None]:
    x = model.patch_embed(images)
    if isinstance(model, Eva):
        x, rope = model._pos_embed(x)
        return model.norm_pre(x), pack_rope(rope, getattr(model, "rope_mixed", False))
    return model.norm_pre(model.patch_drop(model._pos_embed(x))), None


def _parts(model: Any) -> list[BlockParts]:
    if not isinstance(model, Eva):
        return [heard_attention(VitBlockParts(block), block.attn) for block in model.blocks]
    blocks: Any = model.blocks
    mixed = (len(blocks), blocks[0].attn.num_heads) if getattr(model, "rope_mixed", False) else None
    return [heard_attention(EvaBlockParts(block, index, mixed), block.attn) for index, block in enumerate(blocks)]


def _head(model: Any, reduction: Reduction, x: Tensor, state: TokenState) -> Any:
    """Pool and classify; average and attention pools weigh tokens by size."""
    by_size = model.attn_pool is not None or model.global_pool not in ("token", "max")
    if state.size is None or not reduction.method.weighs_pool or not by_size:
        return model.forward_head(x)
    pooled = _pool_by_size(model, x, state)
    return model.head(model.head_drop(model.fc_norm(pooled)))


def _pool_by_size(model: Any, x: Tensor, state: TokenState) -> Tensor:
    prefix, size = model.num_prefix_tokens, state.size
    with_prefix = isinstance(model, Eva) if model.attn_pool is not None else False
    with_prefix = with_prefix or getattr(model, "pool_include_prefix", False)
    x = x if with_prefix else x[:, prefix:]
    if model.attn_pool is not None:
        return model.attn_pool(x, attn_mask=state.attention_bias(x.dtype, with_prefix))  # type: ignore[no-any-return]
    assert size is not None
    mean = weighted_mean(x, F.pad(size, (prefix, 0), value=1.0) if with_prefix else size)
    return mean if model.global_pool == "avg" else 0.5 * (x.amax(dim=1) + mean)


def _intermediates(
    model: Any,
    reduction: Reduction,
    images: Tensor,
    indices: int | list[int] | None,
    return_prefix_tokens: bool = False,
    norm: bool = False,
    stop_early: bool = False,
    output_fmt: str = "NCHW",
    intermediates_only: bool = False,
    output_dict: bool = False,
) -> Any:
    if output_fmt not in ("NCHW", "NLC"):
        raise ValueError(f"output_fmt={output_fmt!r}: expected 'NCHW' or 'NLC'")
    taken, last = feature_take_indices(len(model.blocks), indices)
    grids: list[Tensor] = []
    blocks = last + 1 if stop_early else None
    record = _collect(model, taken, norm, grids)
    tokens, state = _tokens(model, reduction, images, track=True, record=record, blocks=blocks, own_values=True)
    state = replace(state, offset=None)  # of maps alone: the final features are those of `forward_features`
    prefix = model.num_prefix_tokens
    maps, prefixes = [grid[:, prefix:] for grid in grids], [grid[:, :prefix] for grid in grids]
    if output_fmt == "NCHW":
        height, width = model.patch_embed.dynamic_feat_size(images.shape[-2:])
        maps = [grid.transpose(1, 2).reshape(*grid[:, 0].shape, height, width) for grid in maps]
    with_prefix = return_prefix_tokens and prefix > 0
    final = None if intermediates_only else unmerge(model.norm(tokens), state)
    if output_dict:
        named = {"image_intermediates": maps, "image_intermediates_prefix": prefixes, "image_features": final}
        wanted = {"image_intermediates": True, "image_intermediates_prefix": with_prefix}
        return {key: value for key, value in named.items() if wanted.get(key, final is not None)}
    result = list(zip(maps, prefixes, strict=True)) if with_prefix else maps
    return result if intermediates_only else (final, result)


def _collect(model: Any, taken: list[int], norm: bool, grids: list[Tensor]) -> Callable[[BlockRecord], None]:
    def record(block: BlockRecord) -> None:
        if block.index in taken:
            grid = unmerge(block.tokens, block.state)
            grids.append(model.norm(grid) if norm else grid)

    return record
