"""The transformers vision models that catis knows, found by class name so that none is imported for the asking."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial, reduce
from typing import Any

from torch import nn
from transformers.utils import ModelOutput

from catis.hosts import hf_readout as read
from catis.hosts import tower_readout as tower
from catis.hosts.hf_parts import ClipBlockParts, DinoBlockParts, HfBlockParts, VideoMaeBlockParts, VitBlockParts
from catis.hosts.tower_parts import InternVlBlockParts, QwenBlockParts

__all__ = ["FAMILIES", "Family", "family_of"]


def _none(model: Any) -> tuple[int, ...]:
    return ()


@dataclass(frozen=True)
class Family:
    """One modeling file of transformers.

    Attributes:
        title: Name for people.
        module: Name of the file's module.
        stem: What its class names begin with.
        blocks: Attribute path of the list of blocks.
        parts: Adapter of a block.
        embed: Runs the model's embedding: a `hf_readout.Embed`, or one of `tower_readout` where `packed`.
        finish: Runs what comes after the blocks, likewise.
        num_prefix: Prefix tokens of a model.
        has_cls: Whether token 0 is a CLS token.
        model: Ending of the class whose forward runs the blocks.
        block: Ending of the class of its blocks.
        attention: Ending of the class that holds the projections.
        packed: Whether images of different sizes come in one call.
        windowed: Blocks that attend in windows.
        taken: Blocks whose tokens `finish` reads, beside the last.
    """

    title: str
    module: str
    stem: str
    blocks: str
    parts: Callable[[Any], HfBlockParts]
    embed: Callable[..., Any]
    finish: Callable[..., ModelOutput]
    num_prefix: Callable[[Any], int]
    has_cls: bool = True
    model: str = "Model"
    block: str = "Layer"
    attention: str = "Attention"
    packed: bool = False
    windowed: Callable[[Any], tuple[int, ...]] = _none
    taken: Callable[[Any], tuple[int, ...]] = _none

    def known(self, ending: str) -> type[Any]:
        """A class of this family as transformers defines it."""
        return getattr(sys.modules[self.module], self.stem + ending)  # type: ignore[no-any-return]

    def blocks_of(self, model: nn.Module) -> nn.ModuleList:
        """The blocks of a model."""
        return reduce(getattr, self.blocks.split("."), model)  # type: ignore[return-value]

    def container_of(self, model: nn.Module) -> nn.Module | None:
        """The module between the model and its blocks, which the model calls; None where it calls the blocks."""
        outer, inner, _ = self.blocks.partition(".")
        return getattr(model, outer) if inner else None


def _no_prefix(model: Any) -> int:
    return 0


def _cls(model: Any) -> int:
    return 1


def _cls_and_distillation(model: Any) -> int:
    return 2


def _cls_and_registers(model: Any) -> int:
    return 1 + int(model.config.num_register_tokens)


def _outside_full(model: Any) -> tuple[int, ...]:
    return tuple(block for block in range(len(model.blocks)) if block not in model.fullatt_block_indexes)


def _deepstack(model: Any) -> tuple[int, ...]:
    return tuple(model.deepstack_visual_indexes)


def _module(package: str) -> str:
    return f"transformers.models.{package}.modeling_{package}"


_vit = partial(Family, blocks="layers", parts=VitBlockParts, embed=read.embed_vit, finish=read.finish_vit)
_dino = partial(Family, blocks="encoder.layer", parts=DinoBlockParts, embed=read.embed_only, finish=read.finish_dinov2)
_tower = partial(Family, blocks="encoder.layers", parts=ClipBlockParts, model="VisionModel", block="EncoderLayer")

_packed = partial(Family, num_prefix=_no_prefix, has_cls=False, packed=True)
_qwen = partial(_packed, stem="", blocks="blocks", parts=QwenBlockParts)
_idefics = partial(
    _packed,
    blocks="encoder.layers",
    parts=ClipBlockParts,
    embed=tower.embed_idefics3,
    finish=tower.finish_idefics3,
    model="VisionTransformer",
    block="EncoderLayer",
    attention="VisionAttention",
)

FAMILIES = (
    _vit("ViT", _module("vit"), "ViT", num_prefix=_cls),
    _vit("DeiT", _module("deit"), "DeiT", num_prefix=_cls_and_distillation),
    _vit("I-JEPA", _module("ijepa"), "IJepa", num_prefix=_no_prefix, has_cls=False),
    _vit("ViT-MAE", _module("vit_mae"), "ViTMAE", embed=read.embed_mae, finish=read.finish_mae, num_prefix=_cls),
    _dino("DINOv2", _module("dinov2"), "Dinov2", num_prefix=_cls),
    _dino(
        "DINOv2 with registers", _module("dinov2_with_registers"), "Dinov2WithRegisters", num_prefix=_cls_and_registers
    ),
    _dino(
        "DINOv3",
        _module("dinov3_vit"),
        "DINOv3ViT",
        blocks="model.layer",
        embed=read.embed_dinov3,
        finish=read.finish_dinov3,
        num_prefix=_cls_and_registers,
    ),
    _tower("CLIP", _module("clip"), "CLIP", embed=read.embed_clip, finish=read.finish_clip, num_prefix=_cls),
    _tower(
        "SigLIP",
        _module("siglip"),
        "Siglip",
        embed=read.embed_only,
        finish=read.finish_siglip,
        num_prefix=_no_prefix,
        has_cls=False,
    ),
    Family(
        "VideoMAE",
        _module("videomae"),
        "VideoMAE",
        blocks="encoder.layer",
        parts=VideoMaeBlockParts,
        embed=read.embed_videomae,
        finish=read.finish_videomae,
        num_prefix=_no_prefix,
        has_cls=False,
        attention="SelfAttention",
    ),
    Family(
        "InternVL",
        _module("internvl"),
        "InternVLVision",
        blocks="encoder.layer",
        parts=InternVlBlockParts,
        embed=tower.embed_internvl,
        finish=tower.finish_internvl,
        num_prefix=_cls,
    ),
    _qwen(
        "Qwen2-VL",
        _module("qwen2_vl"),
        embed=tower.embed_qwen2,
        finish=tower.finish_qwen2,
        model="Qwen2VisionTransformerPretrainedModel",
        block="Qwen2VLVisionBlock",
        attention="VisionAttention",
    ),
    _qwen(
        "Qwen2.5-VL",
        _module("qwen2_5_vl"),
        embed=tower.embed_qwen2_5,
        finish=tower.finish_qwen2_5,
        model="Qwen2_5_VisionTransformerPretrainedModel",
        block="Qwen2_5_VLVisionBlock",
        attention="Qwen2_5_VLVisionAttention",
        windowed=_outside_full,
    ),
    _qwen(
        "Qwen3-VL",
        _module("qwen3_vl"),
        embed=tower.embed_qwen3,
        finish=tower.finish_qwen3,
        model="Qwen3VLVisionModel",
        block="Qwen3VLVisionBlock",
        attention="Qwen3VLVisionAttention",
        taken=_deepstack,
    ),
    _packed(
        "SigLIP 2",
        _module("siglip2"),
        "Siglip2",
        blocks="encoder.layers",
        parts=ClipBlockParts,
        embed=tower.embed_siglip2,
        finish=tower.finish_siglip2,
        model="VisionModel",
        block="EncoderLayer",
    ),
    _idefics("Idefics 3", _module("idefics3"), "Idefics3"),
    _idefics("SmolVLM", _module("smolvlm"), "SmolVLM"),
)
_BY_CLASS = {(family.module, family.stem + family.model): family for family in FAMILIES}


def family_of(kind: type[Any]) -> Family | None:
    """The family that a model class belongs to, itself or through its bases; None if catis does not know it."""
    for base in kind.__mro__:
        if (base.__module__, base.__qualname__) in _BY_CLASS:
            return _BY_CLASS[base.__module__, base.__qualname__]
    return None
