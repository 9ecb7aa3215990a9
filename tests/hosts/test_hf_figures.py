"""The paper's DINOv3-7B and VideoMAE-B rows, from their configurations alone (SPEC 8), on the meta device."""

from __future__ import annotations

import pytest
import torch
import transformers as hf

import catis
from catis import hosts
from catis.core.block import BlockRecord

DINOV3_7B = {
    "hidden_size": 4096,
    "intermediate_size": 8192,
    "num_hidden_layers": 40,
    "num_attention_heads": 32,
    "num_register_tokens": 4,
    "use_gated_mlp": True,
    "image_size": 224,
    "patch_size": 16,
}
R_FROM_BLOCK_3 = [0, 0, 0] + [160] * 9


@pytest.fixture(scope="module")
def dinov3() -> torch.nn.Module:
    with torch.device("meta"):
        return hf.DINOv3ViTModel(hf.DINOv3ViTConfig(**DINOV3_7B)).eval()


def test_dinov3_7b_gmacs(dinov3: torch.nn.Module) -> None:
    """1363 -> 815.6 at r=4 (SPEC 8: 815.5); the paper's 1349 leaves out the attention products, as its counter does."""
    assert catis.gmacs(dinov3) == pytest.approx(1363, abs=0.5)
    assert catis.gmacs(dinov3, r=4) == pytest.approx(815.6, abs=0.05)
    products = 40 * 2 * 201**2 * 4096 / 1e9
    assert catis.gmacs(dinov3) - products == pytest.approx(1349, abs=0.9)


def test_dinov3_7b_token_counts(dinov3: torch.nn.Module) -> None:
    catis.apply(dinov3, "catis", r=4)
    blocks: list[BlockRecord] = []
    handle = hosts.find(dinov3)
    handle.watch(torch.zeros(2, 3, 224, 224, device="meta"), blocks.append)
    assert [block.tokens.shape[1] for block in blocks] == [201 - 4 * (layer + 1) for layer in range(40)]
    catis.remove(dinov3)


def test_videomae_b_token_counts() -> None:
    """1568 in, 144 out: the last block can remove 144 of 288 only, where the paper's nominal count says 128."""
    with torch.device("meta"):
        model = hf.VideoMAEForVideoClassification(hf.VideoMAEConfig()).eval()
    catis.apply(model, "catis", r=R_FROM_BLOCK_3)
    blocks: list[BlockRecord] = []
    handle = hosts.find(model)
    output = handle.watch(torch.zeros(1, 16, 3, 224, 224, device="meta"), blocks.append)
    counts = [block.tokens.shape[1] for block in blocks]
    assert counts == [1568, 1568, 1568, 1408, 1248, 1088, 928, 768, 608, 448, 288, 144]
    assert output.last_hidden_state.shape == (1, 1568, 768)


def test_videomae_without_cls_scores_by_activation_alone() -> None:
    torch.manual_seed(0)
    config = hf.VideoMAEConfig(
        hidden_size=32, num_hidden_layers=4, num_attention_heads=2, intermediate_size=48, image_size=32, patch_size=8,
        num_frames=4,
    )  # fmt: skip
    model = hf.VideoMAEModel(config).eval()
    videos = torch.randn(2, 4, 3, 32, 32)
    with torch.no_grad():
        fused = catis.apply(model, "catis", r=4, l_start=0)(videos).last_hidden_state
        alone = catis.apply(model, "catis", r=4, l_start=0, signal="nf")(videos).last_hidden_state
    assert torch.equal(fused, alone)
    assert all("s_cls" not in block.scores for block in catis.trace(model, videos))


def test_macs_of_a_real_run_agree_with_the_count() -> None:
    """torch's own counter sees what the modules and kernels really do."""
    from torch.utils.flop_counter import FlopCounterMode

    from tests.hosts.hf_models import BUILDERS, build, inputs_for

    for name in BUILDERS:
        model = build(name, "eager")
        handle = hosts.find(model)
        if name == "ViTMAEModel":  # embeds all patches and drops some, while the count is of those it keeps
            model.config.mask_ratio = 0.0
        pixels = inputs_for(model, batch=1)["pixel_values"]
        catis.apply(model, "tome", r=0)
        with FlopCounterMode(display=False) as counter, torch.no_grad():
            handle.watch(pixels, lambda block: None)
        assert counter.get_total_flops() / 2e9 == pytest.approx(catis.gmacs(model), rel=1e-6), name
