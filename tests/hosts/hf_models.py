"""Tiny random transformers models, one builder per class that catis takes, with weights that make every part matter."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import transformers as hf
from torch import Tensor, nn

SMALL = {
    "hidden_size": 32,
    "num_hidden_layers": 4,
    "num_attention_heads": 2,
    "intermediate_size": 48,
    "image_size": 32,
    "patch_size": 8,
    "num_labels": 5,
}
DINO = {**SMALL, "mlp_ratio": 2, "layerscale_value": 0.7}
VIDEO = {**SMALL, "num_frames": 4, "tubelet_size": 2}
TEXT = {"hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32, "vocab_size": 40}
TOWER = {key: value for key, value in SMALL.items() if key != "num_labels"}


def _both(config: type[Any], width: int = 24) -> Any:
    # CLIP finds the end of a text by the end token, which must exist.
    text = {**TEXT, "hidden_size": width, "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0}
    return config(text_config=text, vision_config=TOWER, projection_dim=16, num_labels=5)


BUILDERS: dict[str, Callable[[], nn.Module]] = {
    "ViTModel": lambda: hf.ViTModel(hf.ViTConfig(**SMALL)),
    "ViTForImageClassification": lambda: hf.ViTForImageClassification(hf.ViTConfig(**SMALL)),
    "DeiTModel": lambda: hf.DeiTModel(hf.DeiTConfig(**SMALL)),
    "DeiTForImageClassification": lambda: hf.DeiTForImageClassification(hf.DeiTConfig(**SMALL)),
    "DeiTForImageClassificationWithTeacher": lambda: hf.DeiTForImageClassificationWithTeacher(hf.DeiTConfig(**SMALL)),
    "Dinov2Model": lambda: hf.Dinov2Model(hf.Dinov2Config(**DINO)),
    "Dinov2SwiGLU": lambda: hf.Dinov2Model(hf.Dinov2Config(**DINO, use_swiglu_ffn=True)),
    "Dinov2ForImageClassification": lambda: hf.Dinov2ForImageClassification(hf.Dinov2Config(**DINO)),
    "Dinov2WithRegistersModel": lambda: hf.Dinov2WithRegistersModel(hf.Dinov2WithRegistersConfig(**DINO)),
    "Dinov2WithRegistersForImageClassification": lambda: hf.Dinov2WithRegistersForImageClassification(
        hf.Dinov2WithRegistersConfig(**DINO)
    ),
    "DINOv3ViTModel": lambda: hf.DINOv3ViTModel(hf.DINOv3ViTConfig(**DINO, num_register_tokens=4, use_gated_mlp=True)),
    "CLIPVisionModel": lambda: hf.CLIPVisionModel(hf.CLIPVisionConfig(**TOWER)),
    "CLIPVisionModelWithProjection": lambda: hf.CLIPVisionModelWithProjection(
        hf.CLIPVisionConfig(**TOWER, projection_dim=16)
    ),
    "CLIPModel": lambda: hf.CLIPModel(_both(hf.CLIPConfig)),
    "CLIPForImageClassification": lambda: hf.CLIPForImageClassification(_both(hf.CLIPConfig)),
    "SiglipVisionModel": lambda: hf.SiglipVisionModel(hf.SiglipVisionConfig(**TOWER)),
    "SiglipModel": lambda: hf.SiglipModel(_both(hf.SiglipConfig, 32)),
    "SiglipForImageClassification": lambda: hf.SiglipForImageClassification(_both(hf.SiglipConfig, 32)),
    "VideoMAEModel": lambda: hf.VideoMAEModel(hf.VideoMAEConfig(**VIDEO)),
    "VideoMAEForVideoClassification": lambda: hf.VideoMAEForVideoClassification(hf.VideoMAEConfig(**VIDEO)),
    "ViTMAEModel": lambda: hf.ViTMAEModel(hf.ViTMAEConfig(**SMALL, mask_ratio=0.25)),
    "IJepaModel": lambda: hf.IJepaModel(hf.IJepaConfig(**SMALL)),
    "IJepaForImageClassification": lambda: hf.IJepaForImageClassification(hf.IJepaConfig(**SMALL)),
}


def build(name: str, attn_implementation: str = "sdpa") -> nn.Module:
    """A model in eval mode. Random weights are redrawn: transformers starts many of them at zero."""
    torch.manual_seed(3)
    model = BUILDERS[name]().eval()
    model.set_attn_implementation(attn_implementation)
    with torch.no_grad():
        for key, weight in model.named_parameters():
            if "logit_" not in key:
                offset = 1.0 if "norm" in key and key.endswith("weight") else 0.0
                weight.normal_(offset, 0.3 if weight.ndim == 1 else 2.0 / weight.shape[-1] ** 0.5)
    return model


def inputs_for(model: nn.Module, batch: int = 2, dtype: torch.dtype = torch.float32) -> dict[str, Tensor]:
    """Keyword arguments of one call."""
    generator = torch.Generator().manual_seed(5)
    kind = type(model).__name__
    shape = (batch, 4, 3, 32, 32) if kind.startswith("VideoMAE") else (batch, 3, 32, 32)
    inputs = {"pixel_values": torch.randn(shape, generator=generator, dtype=dtype)}
    if kind in ("CLIPModel", "SiglipModel"):
        inputs["input_ids"] = torch.tensor([[1, 5, 6, 2], [1, 7, 8, 2]])
    if kind == "ViTMAEModel":
        inputs["noise"] = torch.rand((batch, 16), generator=generator)
    return inputs


def tensors(output: Any) -> dict[str, Tensor]:
    """Every tensor of an output, nested ones too, by path."""
    found: dict[str, Tensor] = {}
    for key, value in output.items():
        if isinstance(value, Tensor):
            found[key] = value
        elif hasattr(value, "items"):
            found |= {f"{key}.{inner}": tensor for inner, tensor in tensors(value).items()}
        elif isinstance(value, tuple):
            found |= {f"{key}.{place}": tensor for place, tensor in enumerate(value) if tensor is not None}
    return found
