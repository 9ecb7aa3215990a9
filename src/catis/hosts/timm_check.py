"""Whether a timm model is one that catis reduces rightly; if not, an error that names the part that is not."""

from __future__ import annotations

from typing import Any

from timm.layers.attention import Attention, AttentionRope
from timm.layers.attention_pool import AttentionPoolLatent
from timm.models.deit import VisionTransformerDistilled
from timm.models.eva import Eva, EvaAttention, EvaBlock
from timm.models.vision_transformer import Block, VisionTransformer
from torch import nn

from catis.errors import UnsupportedModelError
from catis.hosts.cost import ModelFacts

SUPPORTED = (
    "timm VisionTransformer (ViT, DeiT, distilled DeiT, DeiT-III, DINOv2, CLIP, SigLIP, register and average-pool "
    "variants) and Eva (EVA-02, DINOv3, PE) with plain pre-norm blocks"
)
# We run these ourselves, so a subclass that changes one would silently lose its change.
_MODEL_METHODS = ("forward", "forward_features", "forward_intermediates", "forward_head", "pool")
_BLOCKS = {VisionTransformer: (Block, (Attention,)), Eva: (EvaBlock, (EvaAttention, AttentionRope))}


def is_timm(model: nn.Module) -> bool:
    """Whether the model is of a timm class that has transformer blocks we know."""
    return isinstance(model, (VisionTransformer, Eva))


def inspect(model: Any, kind: type[nn.Module]) -> ModelFacts:
    """Check every part that reduction touches. `kind` is the model's vanilla class.

    Raises:
        UnsupportedModelError: A part is not as we know it; the message names it.
    """
    family = VisionTransformer if isinstance(model, VisionTransformer) else Eva
    _check_methods(model, kind, family)
    block_class, attention_classes = _BLOCKS[family]
    if len(model.blocks) == 0:
        raise _unsupported("a model without blocks")
    for index, block in enumerate(model.blocks):
        _check_module(block, (block_class,), f"blocks.{index}")
        _check_module(block.attn, attention_classes, f"blocks.{index}.attn")
    _check_pool(model)
    return ModelFacts(len(model.blocks), model.num_prefix_tokens, getattr(model, "cls_token", None) is not None)


def reads_patches(model: Any) -> str:
    """Why patch tokens are needed after the last block; empty where the head reads prefix tokens alone."""
    if model.attn_pool is not None:
        return f"the {type(model.attn_pool).__name__} of this model reads every token"
    if model.global_pool != "token":
        return f"global_pool={model.global_pool!r} of this model reads every token"
    return "" if model.num_prefix_tokens else "this model has no prefix tokens"


def _unsupported(part: str) -> UnsupportedModelError:
    return UnsupportedModelError(f"found {part}, which catis cannot reduce rightly. Supported: {SUPPORTED}.")


def _check_methods(model: nn.Module, kind: type[Any], family: type[Any]) -> None:
    allowed = {name: [getattr(family, name)] for name in _MODEL_METHODS}
    allowed["forward_head"].append(VisionTransformerDistilled.forward_head)  # reads prefix tokens only
    for name, functions in allowed.items():
        if name in vars(model) or getattr(kind, name) not in functions:
            raise _unsupported(f"{kind.__name__}.{name} that replaces {family.__name__}.{name}")


def _check_module(module: nn.Module, known: tuple[type[Any], ...], where: str) -> None:
    same_forward = any(type(module).forward is kind.forward for kind in known)
    if not isinstance(module, known) or not same_forward or "forward" in vars(module):
        raise _unsupported(f"{type(module).__module__}.{type(module).__name__} at {where}")


def _check_pool(model: Any) -> None:
    pool = model.attn_pool
    if pool is None:
        return
    if type(pool).forward is not AttentionPoolLatent.forward:
        raise _unsupported(f"{type(pool).__name__} at attn_pool, which cannot weigh tokens by size")
    if pool.pos_embed is not None:
        raise _unsupported("attn_pool with position embeddings, one per token of the full grid")
