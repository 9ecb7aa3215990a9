"""One small member of every supported timm family: real classes, few and narrow blocks, random weights that matter."""

import timm
import torch

FAMILIES = {
    "vit": ("vit_tiny_patch16_224", {"img_size": 64}),
    "deit": ("deit_tiny_patch16_224", {"img_size": 64}),
    "deit-distilled": ("deit_tiny_distilled_patch16_224", {"img_size": 64}),
    "deit3": ("deit3_small_patch16_224", {"img_size": 64}),
    "dinov2": ("vit_small_patch14_dinov2", {"img_size": 56}),
    "dinov2-reg": ("vit_small_patch14_reg4_dinov2", {"img_size": 56}),
    "clip": ("vit_base_patch16_clip_224", {"img_size": 64, "embed_dim": 192, "num_heads": 3}),
    "siglip-map": ("vit_base_patch16_siglip_224", {"img_size": 64, "embed_dim": 192, "num_heads": 3}),
    "siglip-gap": ("vit_base_patch16_siglip_gap_224", {"img_size": 64, "embed_dim": 192, "num_heads": 3}),
    "gap": ("vit_medium_patch16_gap_240", {"img_size": 64, "embed_dim": 192, "num_heads": 3}),
    "reg-gap": ("vit_wee_patch16_reg1_gap_256", {"img_size": 64}),
    "reg4-gap": ("vit_little_patch16_reg4_gap_256", {"img_size": 64}),
    "qk-norm": (
        "vit_tiny_patch16_224",
        {"img_size": 64, "qk_norm": True, "scale_attn_norm": True, "scale_mlp_norm": True},
    ),
    "dynamic": ("vit_tiny_patch16_224", {"img_size": 64, "dynamic_img_size": True}),
    "eva02": ("eva02_tiny_patch14_224", {"img_size": 56}),
    "dinov3": ("vit_small_patch16_dinov3", {"img_size": 64, "embed_dim": 192, "num_heads": 3}),
    "dinov3-qkvb": ("vit_small_patch16_dinov3_qkvb", {"img_size": 64, "embed_dim": 192, "num_heads": 3}),
    "rope-mixed": ("vit_small_patch16_rope_mixed_224", {"img_size": 64, "embed_dim": 192, "num_heads": 3}),
    "pe": ("vit_pe_core_tiny_patch16_384", {"img_size": 64}),
}

FLOAT32_ONLY = {"rope-mixed"}  # timm's own forward pass wants float32 there


def build(family: str, depth: int = 4, dtype: torch.dtype = torch.float32):
    """The family's model in eval mode, with LayerScale, norms and biases drawn so that losing one shows."""
    name, options = FAMILIES[family]
    torch.manual_seed(0)
    model = timm.create_model(name, depth=depth, num_classes=10, **options).eval()
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for key, parameter in model.named_parameters():
            if parameter.ndim == 1:
                noise = torch.rand(parameter.shape, generator=generator)
                parameter.copy_(0.3 + noise if "bias" not in key else noise - 0.5)
            elif "token" in key or "latent" in key:
                parameter.copy_(torch.randn(parameter.shape, generator=generator))
            elif parameter.ndim == 2:
                parameter.mul_(3.0)
    return model.to(dtype)


def images(model, batch: int = 2, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    generator = torch.Generator().manual_seed(2)
    return torch.randn(batch, 3, *model.patch_embed.img_size, generator=generator).to(dtype)
