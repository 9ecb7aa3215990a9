"""The vision models of transformers that catis knows: encoders, backbones, and the towers of multimodal models."""

from __future__ import annotations

from functools import partial
from typing import Any

from catis.hosts import hf_readout as read
from catis.hosts import tower_readout as tower
from catis.hosts.hf_family import Family, modeling
from catis.hosts.hf_nested_parts import IN_A_TUPLE, Data2VecBlockParts, VideoMaeBlockParts, VitPoseBlockParts
from catis.hosts.hf_parts import ClipBlockParts, DinoBlockParts, VitBlockParts
from catis.hosts.tower_parts import InternVlBlockParts, QwenBlockParts


def _relative_bias(model: Any) -> str | None:
    config = model.config
    if config.use_relative_position_bias or config.use_shared_relative_position_bias:
        return "a bias for every pair of positions of the full grid (use_relative_position_bias)"
    return None


def _experts(model: Any) -> str | None:
    return "a mixture of experts (num_experts > 1), chosen by dataset_index" if model.config.num_experts > 1 else None


def _outside_full(model: Any) -> tuple[int, ...]:
    return tuple(block for block in range(len(model.blocks)) if block not in model.fullatt_block_indexes)


_vit = partial(Family, blocks="layers", parts=VitBlockParts, embed=read.embed_vit, finish=read.finish_vit)
_dino = partial(Family, blocks="encoder.layer", parts=DinoBlockParts, embed=read.embed_only, finish=read.finish_dino)
_tower = partial(Family, blocks="encoder.layers", parts=ClipBlockParts, model="VisionModel", block="EncoderLayer")

ENCODERS = (
    _vit("ViT", modeling("vit"), "ViT"),
    _vit("DeiT", modeling("deit"), "DeiT", prefix=2),
    _vit("I-JEPA", modeling("ijepa"), "IJepa", prefix=0),
    _vit("ViT-MSN", modeling("vit_msn"), "ViTMSN", finish=read.finish_unpooled),
    _vit("ViViT", modeling("vivit"), "Vivit", embed=read.embed_only),
    _vit("AST", modeling("audio_spectrogram_transformer"), "AST", embed=read.embed_ast, finish=read.finish_ast,
         prefix=2),
    _vit("ViT-MAE", modeling("vit_mae"), "ViTMAE", embed=read.embed_mae, finish=read.finish_mae),
    _dino("DINOv2", modeling("dinov2"), "Dinov2"),
    _dino("DINOv2 with registers", modeling("dinov2_with_registers"), "Dinov2WithRegisters", registers=True),
    _dino("DINOv3", modeling("dinov3_vit"), "DINOv3ViT", blocks="model.layer", embed=read.embed_dinov3, registers=True),
    _tower("CLIP", modeling("clip"), "CLIP", embed=read.embed_clip, finish=read.finish_clip),
    _tower("SigLIP", modeling("siglip"), "Siglip", embed=read.embed_only, finish=read.finish_siglip, prefix=0),
    Family("VideoMAE", modeling("videomae"), "VideoMAE", blocks="encoder.layer", parts=VideoMaeBlockParts,
           embed=read.embed_videomae, finish=read.finish_unpooled, prefix=0, attention="SelfAttention"),
    Family("Data2Vec-vision", "transformers.models.data2vec.modeling_data2vec_vision", "Data2VecVision",
           blocks="encoder.layer", parts=Data2VecBlockParts, embed=read.embed_data2vec, finish=read.finish_data2vec,
           attention="SelfAttention|SdpaSelfAttention", block_returns=IN_A_TUPLE, refuses=_relative_bias),
)  # fmt: skip
_maps = partial(Family, blocks="encoder.layer", model="Backbone", finish=read.never, backbone=True)
_dino_maps = partial(_maps, parts=DinoBlockParts, embed=read.embed_only)

BACKBONES = (
    _dino_maps("DINOv2 backbone", modeling("dinov2"), "Dinov2"),
    _dino_maps("DINOv2 with registers backbone", modeling("dinov2_with_registers"), "Dinov2WithRegisters",
               registers=True),
    _dino_maps("DINOv3 backbone", modeling("dinov3_vit"), "DINOv3ViT", blocks="model.layer", embed=read.embed_dinov3,
               registers=True),
    _maps("ViTPose backbone", modeling("vitpose_backbone"), "VitPoseBackbone", model="", parts=VitPoseBlockParts,
          embed=read.embed_vitpose, prefix=0, attention="SelfAttention", refuses=_experts),
)  # fmt: skip
_packed = partial(Family, prefix=0, packed=True)
_qwen = partial(_packed, stem="", blocks="blocks", parts=QwenBlockParts)
_idefics = partial(
    _packed, blocks="encoder.layers", parts=ClipBlockParts, embed=tower.embed_idefics3, finish=tower.finish_idefics3,
    model="VisionTransformer", block="EncoderLayer", attention="VisionAttention",
)  # fmt: skip

TOWERS = (
    Family("InternVL", modeling("internvl"), "InternVLVision", blocks="encoder.layer", parts=InternVlBlockParts,
           embed=read.embed_only, finish=tower.finish_internvl),
    _qwen("Qwen2-VL", modeling("qwen2_vl"), embed=tower.embed_qwen2, finish=tower.finish_qwen2,
          model="Qwen2VisionTransformerPretrainedModel", block="Qwen2VLVisionBlock", attention="VisionAttention"),
    _qwen("Qwen2.5-VL", modeling("qwen2_5_vl"), embed=tower.embed_qwen2_5, finish=tower.finish_qwen2_5,
          model="Qwen2_5_VisionTransformerPretrainedModel", block="Qwen2_5_VLVisionBlock",
          attention="Qwen2_5_VLVisionAttention", windowed=_outside_full),
    _qwen("Qwen3-VL", modeling("qwen3_vl"), embed=tower.embed_qwen3, finish=tower.finish_qwen3,
          model="Qwen3VLVisionModel", block="Qwen3VLVisionBlock", attention="Qwen3VLVisionAttention",
          taken=lambda model: tuple(model.deepstack_visual_indexes)),
    _packed("SigLIP 2", modeling("siglip2"), "Siglip2", blocks="encoder.layers", parts=ClipBlockParts,
            embed=tower.embed_siglip2, finish=tower.finish_siglip2, model="VisionModel", block="EncoderLayer"),
    _idefics("Idefics 3", modeling("idefics3"), "Idefics3"),
    _idefics("SmolVLM", modeling("smolvlm"), "SmolVLM"),
)  # fmt: skip

FAMILIES = (*ENCODERS, *BACKBONES, *TOWERS)
_BY_CLASS = {(family.module, family.stem + family.model): family for family in FAMILIES}


def family_of(kind: type[Any]) -> Family | None:
    """The family that a model class belongs to, itself or through its bases; None if catis does not know it."""
    for base in kind.__mro__:
        if (base.__module__, base.__qualname__) in _BY_CLASS:
            return _BY_CLASS[base.__module__, base.__qualname__]
    return None
