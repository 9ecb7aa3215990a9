"""Arguments and outputs of transformers models that reduction could silently get wrong."""

from __future__ import annotations

import pytest
import torch
import transformers as hf
from transformers import AttentionInterface
from transformers.integrations.sdpa_attention import sdpa_attention_forward

import catis
from catis import hosts
from catis.errors import UnsupportedModelError
from tests.hosts.hf_models import BUILDERS, SMALL, build, inputs_for

CLASSES = ("ViTForImageClassification", "DINOv3ViTModel", "CLIPVisionModel", "VideoMAEModel", "SiglipVisionModel")


@pytest.mark.parametrize("name", BUILDERS)
@torch.no_grad()
def test_hidden_states_lie_on_the_full_grid(name: str) -> None:
    model = build(name)
    inputs = inputs_for(model)
    handle = hosts.find(model)
    pixels = inputs["pixel_values"]
    plain = handle.vit(pixels, output_hidden_states=True).hidden_states
    catis.apply(model, "catis", r=3)
    output = handle.vit(pixels, output_hidden_states=True)
    assert [state.shape for state in output.hidden_states] == [state.shape for state in plain]
    assert output.last_hidden_state.shape == plain[0].shape
    if name != "ViTMAEModel":  # its patches are drawn anew at each call
        assert torch.equal(output.hidden_states[0], plain[0])
        prefix = handle.facts.num_prefix
        for state, block in zip(output.hidden_states[1:], catis.trace(model, pixels), strict=True):
            for patches, group in zip(state[:, prefix:], block.provenance, strict=True):
                alike = (patches[:, None] == patches[None]).all(-1)
                assert torch.equal(alike, group[:, None] == group[None])


@torch.no_grad()
def test_hidden_states_of_chosen_layers_and_by_configuration() -> None:
    model = build("ViTModel")
    pixels = inputs_for(model)["pixel_values"]
    catis.apply(model, "tome", r=3)
    every = model(pixels, output_hidden_states=True).hidden_states
    chosen = model(pixels, output_hidden_states=[1, 3]).hidden_states
    assert [state is None for state in chosen] == [True, False, True, False]
    assert torch.equal(chosen[3], every[4])
    model.config.output_hidden_states = True
    assert len(model(pixels).hidden_states) == 5
    assert isinstance(model(pixels, return_dict=False), tuple)


@pytest.mark.parametrize("name", CLASSES)
def test_attention_maps_are_refused_with_a_reason(name: str) -> None:
    model = build(name, "eager")
    inputs = inputs_for(model)
    catis.apply(model, "tome", r=3)
    with pytest.raises(ValueError, match=r"output_attentions=True.*catis.trace"):
        model(**inputs, output_attentions=True)


@pytest.mark.parametrize("name", CLASSES)
def test_a_mask_is_honoured_at_r_0_and_refused_once_tokens_merge(name: str) -> None:
    model = build(name)
    handle = hosts.find(model)
    pixels = inputs_for(model)["pixel_values"]
    mask = torch.ones(2, 17 if name.startswith("ViT") else 16)
    mask[:, -4:] = 0
    with torch.no_grad():
        plain = handle.vit(pixels, attention_mask=mask).last_hidden_state if name.startswith("ViT") else None
        catis.apply(model, "tome", r=0)
        if plain is not None:
            assert torch.equal(handle.vit(pixels, attention_mask=mask).last_hidden_state, plain)
            assert not torch.equal(handle.vit(pixels).last_hidden_state, plain)
    catis.apply(model, "tome", r=3)
    with pytest.raises(ValueError, match="attention_mask was given"):
        handle.vit(pixels, attention_mask=mask)


@torch.no_grad()
def test_patches_that_the_embedding_masks_are_still_masked() -> None:
    video = build("VideoMAEModel")
    pixels = inputs_for(video)["pixel_values"]
    hidden = torch.zeros(2, 32, dtype=torch.bool)
    hidden[:, :20] = True
    catis.apply(video, "tome", r=3)
    assert video(pixels, bool_masked_pos=hidden).last_hidden_state.shape[1] == 12
    model = hf.ViTModel(hf.ViTConfig(**SMALL), use_mask_token=True).eval()
    catis.apply(model, "tome", r=3)
    images = torch.randn(2, 3, 32, 32)
    changed = images.clone()
    changed[:, :, :8, :8] += 1  # under the mask
    mask = torch.zeros(2, 16, dtype=torch.bool)
    mask[:, 0] = True
    assert torch.equal(model(images, mask).last_hidden_state, model(changed, mask).last_hidden_state)


@torch.no_grad()
def test_an_implementation_that_would_drop_the_size_bias_is_refused() -> None:
    AttentionInterface.register("catis_test_kernel", sdpa_attention_forward)
    model = build("ViTModel", "catis_test_kernel")
    pixels = inputs_for(model)["pixel_values"]
    catis.apply(model, "tome", r=3)
    with pytest.raises(ValueError, match=r"catis_test_kernel.*sdpa.*prop_attn=False"):
        model(pixels)
    catis.apply(model, "tome", r=3, prop_attn=False)
    assert model(pixels).last_hidden_state.shape == (2, 17, 32)


@torch.no_grad()
def test_eager_and_sdpa_reduce_alike() -> None:
    for name in CLASSES:
        inputs = inputs_for(build(name))
        found = [catis.apply(build(name, kind), "catis", r=3)(**inputs)[0] for kind in ("eager", "sdpa")]
        torch.testing.assert_close(*found, rtol=0, atol=1e-4)


@torch.no_grad()
def test_reference_forms_leave_the_sequence_short_as_their_authors_do() -> None:
    model = catis.apply(build("IJepaModel"), "tome", r=3, reference=True)
    assert model(inputs_for(model)["pixel_values"]).last_hidden_state.shape[1] == 4


def test_what_catis_does_not_know_is_named() -> None:
    for kind, config in ((hf.BeitModel, hf.BeitConfig), (hf.TimesformerModel, hf.TimesformerConfig)):
        with pytest.raises(UnsupportedModelError, match=f"{kind.__name__}.*transformers ViT, DeiT"):
            catis.apply(kind(config(**{**SMALL, "num_hidden_layers": 1})), "tome", r=1)


def test_a_subclass_or_layer_with_another_forward_is_refused() -> None:
    class Mine(hf.ViTModel):
        def forward(self, pixel_values):
            return super().forward(pixel_values)

    with pytest.raises(UnsupportedModelError, match=r"Mine\.forward"):
        catis.apply(Mine(hf.ViTConfig(**SMALL)), "tome", r=1)
    model = build("ViTModel")
    model.layers[2].attention.forward = lambda x: x
    with pytest.raises(UnsupportedModelError, match="attention of block 2"):
        catis.apply(model, "tome", r=1)
