"""The vision towers of multimodal models that catis knows, beside the encoders that some of them use."""

from __future__ import annotations

from functools import partial
from typing import Any

from catis.hosts import tower_readout as tower
from catis.hosts.hf_family import Family, cls, modeling, no_prefix
from catis.hosts.hf_parts import ClipBlockParts
from catis.hosts.hf_readout import embed_only
from catis.hosts.tower_parts import InternVlBlockParts, QwenBlockParts


def _outside_full(model: Any) -> tuple[int, ...]:
    return tuple(block for block in range(len(model.blocks)) if block not in model.fullatt_block_indexes)


def _deepstack(model: Any) -> tuple[int, ...]:
    return tuple(model.deepstack_visual_indexes)


_packed = partial(Family, num_prefix=no_prefix, has_cls=False, packed=True)
_qwen = partial(_packed, stem="", blocks="blocks", parts=QwenBlockParts)
_idefics = partial(
    _packed, blocks="encoder.layers", parts=ClipBlockParts, embed=tower.embed_idefics3, finish=tower.finish_idefics3,
    model="VisionTransformer", block="EncoderLayer", attention="VisionAttention",
)  # fmt: skip

TOWERS = (
    Family("InternVL", modeling("internvl"), "InternVLVision", blocks="encoder.layer", parts=InternVlBlockParts,
           embed=embed_only, finish=tower.finish_internvl, num_prefix=cls),
    _qwen("Qwen2-VL", modeling("qwen2_vl"), embed=tower.embed_qwen2, finish=tower.finish_qwen2,
          model="Qwen2VisionTransformerPretrainedModel", block="Qwen2VLVisionBlock", attention="VisionAttention"),
    _qwen("Qwen2.5-VL", modeling("qwen2_5_vl"), embed=tower.embed_qwen2_5, finish=tower.finish_qwen2_5,
          model="Qwen2_5_VisionTransformerPretrainedModel", block="Qwen2_5_VLVisionBlock",
          attention="Qwen2_5_VLVisionAttention", windowed=_outside_full),
    _qwen("Qwen3-VL", modeling("qwen3_vl"), embed=tower.embed_qwen3, finish=tower.finish_qwen3,
          model="Qwen3VLVisionModel", block="Qwen3VLVisionBlock", attention="Qwen3VLVisionAttention",
          taken=_deepstack),
    _packed("SigLIP 2", modeling("siglip2"), "Siglip2", blocks="encoder.layers", parts=ClipBlockParts,
            embed=tower.embed_siglip2, finish=tower.finish_siglip2, model="VisionModel", block="EncoderLayer"),
    _idefics("Idefics 3", modeling("idefics3"), "Idefics3"),
    _idefics("SmolVLM", modeling("smolvlm"), "SmolVLM"),
)  # fmt: skip
