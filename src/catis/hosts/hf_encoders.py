"""The vision encoders of transformers that catis knows, and their backbones, which return maps of several blocks."""

from __future__ import annotations

from functools import partial
from typing import Any

from catis.hosts import hf_readout as read
from catis.hosts.hf_family import Family, cls, cls_and_distillation, cls_and_registers, modeling, no_prefix
from catis.hosts.hf_nested_parts import Data2VecBlockParts, VideoMaeBlockParts, VitPoseBlockParts
from catis.hosts.hf_parts import ClipBlockParts, DinoBlockParts, VitBlockParts
from catis.hosts.hooks import Convention


def _relative_bias(model: Any) -> str | None:
    config = model.config
    if config.use_relative_position_bias or config.use_shared_relative_position_bias:
        return "a bias for every pair of positions of the full grid (use_relative_position_bias)"
    return None


def _experts(model: Any) -> str | None:
    return "a mixture of experts (num_experts > 1), chosen by dataset_index" if model.config.num_experts > 1 else None


_vit = partial(Family, blocks="layers", parts=VitBlockParts, embed=read.embed_vit, finish=read.finish_vit)
_dino = partial(Family, blocks="encoder.layer", parts=DinoBlockParts, embed=read.embed_only, finish=read.finish_dino)
_tower = partial(Family, blocks="encoder.layers", parts=ClipBlockParts, model="VisionModel", block="EncoderLayer")

ENCODERS = (
    _vit("ViT", modeling("vit"), "ViT", num_prefix=cls),
    _vit("DeiT", modeling("deit"), "DeiT", num_prefix=cls_and_distillation),
    _vit("I-JEPA", modeling("ijepa"), "IJepa", num_prefix=no_prefix, has_cls=False),
    _vit("ViT-MSN", modeling("vit_msn"), "ViTMSN", finish=read.finish_unpooled, num_prefix=cls),
    _vit("ViViT", modeling("vivit"), "Vivit", embed=read.embed_only, num_prefix=cls),
    _vit("AST", modeling("audio_spectrogram_transformer"), "AST", embed=read.embed_ast, finish=read.finish_ast,
         num_prefix=cls_and_distillation),
    _vit("ViT-MAE", modeling("vit_mae"), "ViTMAE", embed=read.embed_mae, finish=read.finish_mae, num_prefix=cls),
    _dino("DINOv2", modeling("dinov2"), "Dinov2", num_prefix=cls),
    _dino("DINOv2 with registers", modeling("dinov2_with_registers"), "Dinov2WithRegisters",
          num_prefix=cls_and_registers),
    _dino("DINOv3", modeling("dinov3_vit"), "DINOv3ViT", blocks="model.layer", embed=read.embed_dinov3,
          num_prefix=cls_and_registers),
    _tower("CLIP", modeling("clip"), "CLIP", embed=read.embed_clip, finish=read.finish_clip, num_prefix=cls),
    _tower("SigLIP", modeling("siglip"), "Siglip", embed=read.embed_only, finish=read.finish_siglip,
           num_prefix=no_prefix, has_cls=False),
    Family("VideoMAE", modeling("videomae"), "VideoMAE", blocks="encoder.layer", parts=VideoMaeBlockParts,
           embed=read.embed_videomae, finish=read.finish_unpooled, num_prefix=no_prefix, has_cls=False,
           attention="SelfAttention"),
    Family("Data2Vec-vision", "transformers.models.data2vec.modeling_data2vec_vision", "Data2VecVision",
           blocks="encoder.layer", parts=Data2VecBlockParts, embed=read.embed_data2vec, finish=read.finish_data2vec,
           num_prefix=cls, attention="SelfAttention|SdpaSelfAttention",
           block_returns=Convention(pack=lambda tokens: (tokens,), unpack=lambda output: output[0]),
           refuses=_relative_bias),
)  # fmt: skip
_maps = partial(Family, blocks="encoder.layer", model="Backbone", finish=read.never, backbone=True)
_dino_maps = partial(_maps, parts=DinoBlockParts, embed=read.embed_only)

BACKBONES = (
    _dino_maps("DINOv2 backbone", modeling("dinov2"), "Dinov2", num_prefix=cls),
    _dino_maps("DINOv2 with registers backbone", modeling("dinov2_with_registers"), "Dinov2WithRegisters",
               num_prefix=cls_and_registers),
    _dino_maps("DINOv3 backbone", modeling("dinov3_vit"), "DINOv3ViT", blocks="model.layer", embed=read.embed_dinov3,
               num_prefix=cls_and_registers),
    _maps("ViTPose backbone", modeling("vitpose_backbone"), "VitPoseBackbone", model="", parts=VitPoseBlockParts,
          embed=read.embed_vitpose, num_prefix=no_prefix, has_cls=False, attention="SelfAttention", refuses=_experts),
)  # fmt: skip
