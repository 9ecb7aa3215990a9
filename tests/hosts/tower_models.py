"""Tiny random multimodal models: every vision tower that catis knows, inside the whole model, with a call for each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import transformers as hf
from torch import Tensor, nn

IMAGE, PAD, START, END = 50, 0, 52, 53
TEXT = {
    "hidden_size": 24,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "num_key_value_heads": 2,
    "intermediate_size": 32,
    "vocab_size": 60,
    "head_dim": 12,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "pad_token_id": PAD,
}
MROPE = {**TEXT, "rope_parameters": {"rope_type": "default", "mrope_section": [2, 2, 2], "rope_theta": 10000.0}}
PLAIN = {
    "hidden_size": 32,
    "num_hidden_layers": 4,
    "num_attention_heads": 2,
    "intermediate_size": 48,
    "image_size": 32,
    "patch_size": 8,
}
CLIP, SIGLIP = {**PLAIN, "model_type": "clip_vision_model"}, {**PLAIN, "model_type": "siglip_vision_model"}
QWEN = {"depth": 4, "num_heads": 2, "patch_size": 4, "temporal_patch_size": 2, "spatial_merge_size": 2}
WIDE = {**QWEN, "hidden_size": 32, "intermediate_size": 48, "out_hidden_size": 24}
MARKS = {"image_token_id": IMAGE, "video_token_id": 51, "vision_start_token_id": START, "vision_end_token_id": END}
LLAMA = {**TEXT, "model_type": "llama"}


def _qwen2() -> nn.Module:
    vision = {**QWEN, "embed_dim": 32, "hidden_size": 24, "mlp_ratio": 2}
    return hf.Qwen2VLForConditionalGeneration(hf.Qwen2VLConfig(vision_config=vision, text_config=MROPE, **MARKS))


def _qwen2_5() -> nn.Module:
    vision = {**WIDE, "window_size": 16, "fullatt_block_indexes": [1, 3]}
    return hf.Qwen2_5_VLForConditionalGeneration(hf.Qwen2_5_VLConfig(vision_config=vision, text_config=MROPE, **MARKS))


def _qwen3() -> nn.Module:
    vision = {**WIDE, "num_position_embeddings": 16, "deepstack_visual_indexes": [1, 2]}
    return hf.Qwen3VLForConditionalGeneration(hf.Qwen3VLConfig(vision_config=vision, text_config=MROPE, **MARKS))


def _llava(vision: dict[str, Any], **options: Any) -> nn.Module:
    config = hf.LlavaConfig(vision_config=vision, text_config=LLAMA, image_token_index=IMAGE, **options)
    return hf.LlavaForConditionalGeneration(config)


def _onevision() -> nn.Module:
    text = {**TEXT, "model_type": "qwen2"}
    config = hf.LlavaOnevisionConfig(
        vision_config=SIGLIP,
        text_config=text,
        image_token_index=IMAGE,
        video_token_index=51,
        vision_feature_select_strategy="full",
        image_grid_pinpoints=[[32, 32], [32, 64]],
        vision_aspect_ratio="anyres_max_9",
    )
    return hf.LlavaOnevisionForConditionalGeneration(config)


def _paligemma() -> nn.Module:
    text = {**TEXT, "model_type": "gemma"}
    config = hf.PaliGemmaConfig(
        vision_config={**SIGLIP, "vision_use_head": False, "projection_dim": 24},
        text_config=text,
        image_token_index=IMAGE,
        projection_dim=24,
    )
    return hf.PaliGemmaForConditionalGeneration(config)


def _gemma3() -> nn.Module:
    text = {**TEXT, "model_type": "gemma3_text", "sliding_window": 8, "query_pre_attn_scalar": 12}
    config = hf.Gemma3Config(
        vision_config={**SIGLIP, "vision_use_head": False},
        text_config=text,
        image_token_index=IMAGE,
        boi_token_index=START,
        eoi_token_index=END,
        mm_tokens_per_image=4,
    )
    return hf.Gemma3ForConditionalGeneration(config)


def _internvl() -> nn.Module:
    vision = {**PLAIN, "image_size": [32, 32], "patch_size": [8, 8], "use_qk_norm": True, "norm_type": "rms_norm"}
    text = {**TEXT, "model_type": "qwen2"}
    config = hf.InternVLConfig(vision_config=vision, text_config=text, image_token_id=IMAGE, downsample_ratio=0.5)
    return hf.InternVLForConditionalGeneration(config)


def _idefics3(config: type[Any], model: type[Any]) -> nn.Module:
    return model(config(vision_config=PLAIN, text_config=LLAMA, image_token_id=IMAGE, scale_factor=2, pad_token_id=PAD))


BUILDERS: dict[str, Callable[[], nn.Module]] = {
    "Qwen2-VL": _qwen2,
    "Qwen2.5-VL": _qwen2_5,
    "Qwen3-VL": _qwen3,
    "InternVL": _internvl,
    "Idefics3": lambda: _idefics3(hf.Idefics3Config, hf.Idefics3ForConditionalGeneration),
    "SmolVLM": lambda: _idefics3(hf.SmolVLMConfig, hf.SmolVLMForConditionalGeneration),
    "LLaVA-CLIP": lambda: _llava(CLIP),
    "LLaVA-SigLIP": lambda: _llava(SIGLIP, vision_feature_select_strategy="full", vision_feature_layer=-1),
    "LLaVA-OneVision": _onevision,
    "PaliGemma": _paligemma,
    "Gemma3": _gemma3,
}
QWENS = ("Qwen2-VL", "Qwen2.5-VL", "Qwen3-VL")
GRID = ((1, 4, 8), (1, 6, 4), (1, 4, 8))
"""Images of two sizes in one call, each (frames, height, width) in patches."""


def build(name: str) -> Any:
    """A model in eval mode, with weights that make every part matter."""
    torch.manual_seed(3)
    model = BUILDERS[name]().eval()
    with torch.no_grad():
        for key, weight in model.named_parameters():
            offset = 1.0 if "norm" in key and key.endswith("weight") else 0.0
            weight.normal_(offset, 0.3 if weight.ndim == 1 else 1.5 / weight.shape[-1] ** 0.5)
    model.generation_config.pad_token_id = PAD
    return model


def pixels(*shape: int, dtype: torch.dtype = torch.float32, seed: int = 5) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def qwen_images(grid: Any = GRID, dtype: torch.dtype = torch.float32, seed: int = 5) -> tuple[Tensor, Tensor]:
    """Packed patches and grid_thw."""
    sizes = torch.tensor(grid)
    return pixels(int(sizes.prod(1).sum()), 3 * 2 * 4 * 4, dtype=dtype, seed=seed), sizes


def prompt(*counts: int) -> dict[str, Tensor]:
    """One text with images of that many placeholders each."""
    ids = [1]
    for count in counts:
        ids += [START, *[IMAGE] * count, END, 7]
    found = torch.tensor([[*ids, 9, 11]])
    return {"input_ids": found, "attention_mask": torch.ones_like(found)}


def call_of(name: str) -> dict[str, Any]:
    """Keyword arguments of one call of the whole model, with two images."""
    if name in QWENS:
        patches, sizes = qwen_images(GRID[:2])
        text = prompt(8, 6)
        return {
            **text,
            "pixel_values": patches,
            "image_grid_thw": sizes,
            "mm_token_type_ids": (text["input_ids"] == IMAGE).int(),
        }
    if name in ("Idefics3", "SmolVLM"):
        return {**prompt(4, 4), "pixel_values": pixels(1, 2, 3, 32, 32)}
    if name == "LLaVA-OneVision":  # one crop and the whole image: a 4 x 4 grid each, a new-line token behind each row
        sizes = torch.tensor([[32, 32], [32, 32]])
        return {**prompt(36, 36), "pixel_values": pixels(2, 2, 3, 32, 32), "image_sizes": sizes}
    counts = {"InternVL": 4, "Gemma3": 4}.get(name, 16)
    call: dict[str, Any] = {**prompt(counts, counts), "pixel_values": pixels(2, 3, 32, 32)}
    if name in ("PaliGemma", "Gemma3"):
        call["token_type_ids"] = torch.zeros_like(call["input_ids"])
    return call
