"""How each transformers family embeds its input and reads its last tokens out, by its own sub-modules."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from transformers.modeling_outputs import BaseModelOutput, BaseModelOutputWithPooling
from transformers.utils import ModelOutput

from catis.hosts.hooks import call

Embedded = tuple[Tensor, Tensor | None, Any]
Expand = Callable[[Tensor], Tensor]
Embed = Callable[..., Embedded]
"""(model, pixel_values, other inputs) -> tokens, rotary positions or None, and what the read-out needs besides."""
Finish = Callable[[Any, Tensor, Tensor | None, Expand, Any], ModelOutput]
"""(model, last tokens, their sizes where pools weigh by them, un-merge to the full grid, extra) -> output."""


def embed_vit(model: Any, pixel_values: Tensor, **inputs: Any) -> Embedded:
    """Cast, patches, prefix and positions."""
    weight = model.embeddings.patch_embeddings.projection.weight
    return model.embeddings(pixel_values.to(weight.dtype), **inputs), None, None


def finish_vit(model: Any, tokens: Tensor, size: Tensor | None, full: Expand, extra: Any) -> ModelOutput:
    """Norm, and the pooler if there is one."""
    last = full(model.layernorm(tokens))
    return BaseModelOutputWithPooling(
        last_hidden_state=last, pooler_output=None if model.pooler is None else model.pooler(last)
    )


def embed_ast(model: Any, input_values: Tensor, **inputs: Any) -> Embedded:
    """Patches of a spectrogram."""
    return model.embeddings(input_values), None, None


def finish_ast(model: Any, tokens: Tensor, size: Tensor | None, full: Expand, extra: Any) -> ModelOutput:
    """Norm; the pooled vector is the mean of CLS and distillation token."""
    last = full(model.layernorm(tokens))
    return BaseModelOutputWithPooling(last_hidden_state=last, pooler_output=(last[:, 0] + last[:, 1]) / 2)


def embed_data2vec(model: Any, pixel_values: Tensor, bool_masked_pos: Tensor | None = None, **inputs: Any) -> Embedded:
    """Patches, CLS and positions."""
    return model.embeddings(pixel_values, bool_masked_pos=bool_masked_pos)[0], None, None


def finish_data2vec(model: Any, tokens: Tensor, size: Tensor | None, full: Expand, extra: Any) -> ModelOutput:
    """Norm, and the pooler if there is one; its mean over the full grid is the size-weighted mean of the tokens."""
    output = sys.modules[type(model.embeddings).__module__].Data2VecVisionModelOutputWithPooling
    last = full(model.layernorm(tokens))
    return output(last_hidden_state=last, pooler_output=None if model.pooler is None else model.pooler(last))


def embed_vitpose(model: Any, pixel_values: Tensor, **inputs: Any) -> Embedded:
    """Patches and positions."""
    return model.embeddings(pixel_values), None, None


def never(*arguments: Any) -> ModelOutput:
    """The read-out of a backbone, which is its own forward."""
    raise AssertionError("a backbone is read out by its own forward")


def embed_mae(model: Any, pixel_values: Tensor, **inputs: Any) -> Embedded:
    """Visible patches in their random order; the mask travels to the output."""
    tokens, mask, ids_restore = model.embeddings(pixel_values, **inputs)
    return tokens, None, (mask, ids_restore)


def finish_mae(model: Any, tokens: Tensor, size: Tensor | None, full: Expand, extra: Any) -> ModelOutput:
    """Norm of the visible patches, with mask and order."""
    output = sys.modules["transformers.models.vit_mae.modeling_vit_mae"].ViTMAEModelOutput
    mask, ids_restore = extra
    return output(last_hidden_state=full(model.layernorm(tokens)), mask=mask, ids_restore=ids_restore)


def embed_only(model: Any, pixel_values: Tensor, **inputs: Any) -> Embedded:
    """Embedding that needs nothing beside it."""
    return model.embeddings(pixel_values, **inputs), None, None


def finish_dino(model: Any, tokens: Tensor, size: Tensor | None, full: Expand, extra: Any) -> ModelOutput:
    """Norm, under either of its names; the CLS token is the pooled vector."""
    last = full((model.norm if hasattr(model, "norm") else model.layernorm)(tokens))
    return BaseModelOutputWithPooling(last_hidden_state=last, pooler_output=last[:, 0, :])


def embed_dinov3(model: Any, pixel_values: Tensor, **inputs: Any) -> Embedded:
    """Tokens and their rotary positions."""
    pixel_values = pixel_values.to(model.embeddings.patch_embeddings.weight.dtype)
    positions = torch.cat(model.rope_embeddings(pixel_values), -1)  # a row of cos and sin per patch
    return model.embeddings(pixel_values, **inputs), positions, None


def embed_clip(model: Any, pixel_values: Tensor, **inputs: Any) -> Embedded:
    """Embedding and the norm before the blocks."""
    return model.pre_layrnorm(model.embeddings(pixel_values, **inputs)), None, None


def finish_clip(model: Any, tokens: Tensor, size: Tensor | None, full: Expand, extra: Any) -> ModelOutput:
    """Tokens as they are; the norm after the blocks is on the pooled CLS token only."""
    return BaseModelOutputWithPooling(
        last_hidden_state=full(tokens), pooler_output=model.post_layernorm(tokens[:, 0, :])
    )


def finish_siglip(model: Any, tokens: Tensor, size: Tensor | None, full: Expand, extra: Any) -> ModelOutput:
    """Full grid, and the probe's pooled vector."""
    last = model.post_layernorm(tokens)
    pooled = probe(model.head, last, size) if model.use_head else None
    return BaseModelOutputWithPooling(last_hidden_state=full(last), pooler_output=pooled)


def probe(head: Any, tokens: Tensor, size: Tensor | None) -> Tensor:
    """SigLIP's probe over the tokens that are left, log(size) added to its logits so that a merged token counts."""
    if size is None:
        return head(tokens)  # type: ignore[no-any-return]
    wide = size.to(torch.promote_types(tokens.dtype, torch.float32))
    bias = wide.log().to(tokens.dtype)[:, None, :].repeat_interleave(head.attention.num_heads, dim=0)

    def pool(tokens: Tensor) -> Tensor:
        probe = head.probe.repeat(tokens.shape[0], 1, 1)
        pooled = head.attention(probe, tokens, tokens, attn_mask=bias)[0]
        return (pooled + head.mlp(head.layernorm(pooled)))[:, 0]  # type: ignore[no-any-return]

    return call(head, pool, tokens)


def embed_videomae(model: Any, pixel_values: Tensor, **inputs: Any) -> Embedded:
    """Tubelets, those of bool_masked_pos left out."""
    return model.embeddings(pixel_values, inputs.get("bool_masked_pos")), None, None


def finish_unpooled(model: Any, tokens: Tensor, size: Tensor | None, full: Expand, extra: Any) -> ModelOutput:
    """Norm, where the head does not bring its own."""
    last = tokens if model.layernorm is None else model.layernorm(tokens)
    return BaseModelOutput(last_hidden_state=full(last))
