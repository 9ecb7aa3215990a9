"""How each vision tower of a multimodal model embeds its images and reads its last tokens out."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor
from transformers import vision_utils
from transformers.modeling_outputs import BaseModelOutputWithPooling
from transformers.utils import ModelOutput

from catis.hosts.hf_readout import Expand, probe
from catis.hosts.tower_model import Group, Packed, pack_visible, packed_again
from catis.hosts.tower_parts import Windows

Taken = dict[int, Tensor]
"""Un-merged packed tokens after the blocks that the read-out asked for, by index of the block."""


def finish_internvl(model: Any, tokens: Tensor, size: Tensor | None, full: Expand, extra: Any) -> ModelOutput:
    """Norm, where the tower has one."""
    output = sys.modules[type(model.embeddings).__module__].InternVLVisionModelOutputWithPooling
    return output(last_hidden_state=full(model.layernorm(tokens)))


def embed_qwen2(model: Any, flags: dict[str, Any], hidden_states: Tensor, grid_thw: Tensor) -> Packed:
    """Patches of all frames, each frame an image of its own, with their rotations."""
    position_ids = vision_utils.get_vision_position_ids(grid_thw, model.spatial_merge_size, kwargs=flags)
    lengths = _lengths(vision_utils.get_vision_attention_seqlens(grid_thw, model.config, kwargs=flags)[0])
    tokens = model.patch_embed(hidden_states)
    places = torch.cat([torch.arange(length, device=tokens.device) for length in lengths])
    return Packed(tokens, _rows(model, tokens, position_ids, places), lengths, [None] * len(lengths))


def embed_qwen3(model: Any, flags: dict[str, Any], hidden_states: Tensor, grid_thw: Tensor) -> Packed:
    """As Qwen2-VL, with learned positions resampled to each image."""
    indices, weights = vision_utils.get_vision_interpolation_indices_and_weights(
        grid_thw,
        num_grid_per_side=model.num_grid_per_side,
        mode=model.interpolation_mode,
        align_corners=model.interpolation_align_corners,
        spatial_merge_size=model.config.spatial_merge_size,
        kwargs=flags,
    )
    packed = embed_qwen2(model, flags, hidden_states, grid_thw)
    learned = (model.pos_embed(indices) * weights[:, :, None]).sum(1)
    return packed._replace(tokens=packed.tokens + learned.to(packed.tokens.dtype))


def embed_qwen2_5(model: Any, flags: dict[str, Any], hidden_states: Tensor, grid_thw: Tensor) -> Packed:
    """As Qwen2-VL, in the order of the windows; images with the same windows are run together."""
    window_index, bounds = vision_utils.get_vision_window_index(
        grid_thw,
        spatial_merge_size=model.spatial_merge_size,
        window_size=model.window_size,
        patch_size=model.patch_size,
        kwargs=flags,
    )
    packed = embed_qwen2(model, flags, hidden_states, grid_thw)
    count = len(packed.tokens)
    windows = _windows_of_images(packed.lengths, _lengths(bounds))
    layouts = [Windows(len(sizes), max(sizes)) for sizes in windows]
    places = torch.tensor(
        [window * max(sizes) + place for sizes in windows for window, size in enumerate(sizes) for place in range(size)]
    )
    assert packed.positions is not None
    turned = model.permute_input_for_window_attn(packed.positions[:, :-1], window_index, count)
    rows = torch.cat([turned, places.to(turned)[:, None]], -1)
    tokens = model.permute_input_for_window_attn(packed.tokens, window_index, count)
    return Packed(tokens, rows, packed.lengths, layouts, extra=window_index)


def finish_qwen2(model: Any, groups: Sequence[Group], taken: Taken, weigh: bool, packed: Packed) -> ModelOutput:
    """The full grid, through the patch merger."""
    last = packed_again(groups)
    return BaseModelOutputWithPooling(last_hidden_state=last, pooler_output=model.merger(last))


def finish_qwen2_5(model: Any, groups: Sequence[Group], taken: Taken, weigh: bool, packed: Packed) -> ModelOutput:
    """As Qwen2-VL, in the order of the image again."""
    output = finish_qwen2(model, groups, taken, weigh, packed)
    output["pooler_output"] = output.pooler_output[torch.argsort(packed.extra)]
    return output


def finish_qwen3(model: Any, groups: Sequence[Group], taken: Taken, weigh: bool, packed: Packed) -> ModelOutput:
    """As Qwen2-VL, with the features that the language model reads from blocks in the middle."""
    output = sys.modules["transformers.models.qwen3_vl.modeling_qwen3_vl"].BaseModelOutputWithDeepstackFeatures
    last = packed_again(groups)
    mergers = zip(model.deepstack_visual_indexes, model.deepstack_merger_list, strict=True)
    deep = {block: merger(taken[block]) for block, merger in mergers}
    features = [deep[block] for block in sorted(deep)]
    return output(last_hidden_state=last, pooler_output=model.merger(last), deepstack_features=features)


def embed_siglip2(
    model: Any, flags: dict[str, Any], pixel_values: Tensor, pixel_attention_mask: Tensor, spatial_shapes: Tensor
) -> Packed:
    """NaFlex: patches of images of any shape, padded to one length; what the mask hides enters no block."""
    return pack_visible(model.embeddings(pixel_values, spatial_shapes), pixel_attention_mask.bool())


def finish_siglip2(model: Any, groups: Sequence[Group], taken: Taken, weigh: bool, packed: Packed) -> ModelOutput:
    """Padded grid, zeros where the mask hides a patch, and the probe's pooled vector of each image."""
    last = packed.as_given(packed_again(groups, model.post_layernorm))
    pooled = None
    if model.use_head:
        pooled = last.new_empty(len(packed.lengths), last.shape[-1])
        for group in groups:
            vectors = probe(model.head, model.post_layernorm(group.tokens), group.state.size if weigh else None)
            pooled = pooled.index_copy(0, group.images, vectors)
    return BaseModelOutputWithPooling(last_hidden_state=last, pooler_output=pooled)


def embed_idefics3(
    model: Any, flags: dict[str, Any], pixel_values: Tensor, patch_attention_mask: Tensor | None = None
) -> Packed:
    """Images padded to one size; what the mask hides enters no block."""
    if patch_attention_mask is None:
        height, width = (side // model.patch_size for side in pixel_values.shape[2:])
        patch_attention_mask = torch.ones(
            len(pixel_values), height, width, dtype=torch.bool, device=pixel_values.device
        )
    tokens = model.embeddings(pixel_values=pixel_values, patch_attention_mask=patch_attention_mask)
    return pack_visible(tokens, patch_attention_mask.flatten(1))


def finish_idefics3(model: Any, groups: Sequence[Group], taken: Taken, weigh: bool, packed: Packed) -> ModelOutput:
    """Padded grid, zeros where the mask hides a patch."""
    last = packed.as_given(packed_again(groups, model.post_layernorm))
    return BaseModelOutputWithPooling(last_hidden_state=last)


def _rows(model: Any, tokens: Tensor, position_ids: Tensor, places: Tensor) -> Tensor:
    """(S, D) cos, sin and place of each patch, in one table that a plan can be applied to."""
    cos, sin = model.rotary_pos_emb(tokens, position_ids)
    return torch.cat([cos, sin, places.to(cos)[:, None]], -1)


def _lengths(bounds: Tensor) -> list[int]:
    """Lengths of the pieces between cumulative bounds."""
    return [end - start for start, end in pairwise(bounds.tolist())]


def _windows_of_images(lengths: Sequence[int], windows: Sequence[int]) -> list[list[int]]:
    """Sizes of the windows of each image; windows never reach over the end of one."""
    windows_of, left = [], iter(windows)
    for length in lengths:
        sizes: list[int] = []
        while sum(sizes) < length:
            sizes.append(next(left))
        windows_of.append(sizes)
    return windows_of
