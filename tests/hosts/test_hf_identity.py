"""r=0 is bit for bit the plain model, by both attention implementations, and also through catis' own path."""

from __future__ import annotations

import pytest
import torch

import catis
from catis import hosts
from catis.core.block import BlockRecord
from tests.hosts.hf_models import BUILDERS, build, inputs_for, tensors

PREFIX = {"DeiT": 2, "Dinov2WithRegisters": 5, "DINOv3": 5, "Siglip": 0, "VideoMAE": 0, "IJepa": 0}


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
@pytest.mark.parametrize("name", BUILDERS)
@torch.no_grad()
def test_r_0_is_the_plain_model(name: str, attention: str) -> None:
    model = build(name, attention)
    inputs = inputs_for(model)
    plain = tensors(model(**inputs, output_hidden_states=True, output_attentions=attention == "eager"))
    catis.apply(model, "catis", r=0)
    same = tensors(model(**inputs, output_hidden_states=True, output_attentions=attention == "eager"))
    assert plain.keys() == same.keys()
    assert all(torch.equal(plain[key], same[key]) for key in plain)


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
@pytest.mark.parametrize("name", BUILDERS)
@torch.no_grad()
def test_the_adapter_itself_changes_nothing_until_tokens_go(name: str, attention: str) -> None:
    """`watch` takes the adapter's path even at r=0, so this compares every part of it with transformers' own code."""
    model = build(name, attention)
    handle = hosts.find(model)
    pixels = inputs_for(model)["pixel_values"]
    if name == "ViTMAEModel":
        handle.vit.config.mask_ratio = 0.0
    torch.manual_seed(1)
    plain = tensors(handle.vit(pixels))
    catis.apply(model, "tome", r=0)
    blocks: list[BlockRecord] = []
    torch.manual_seed(1)
    seen = tensors(handle.watch(pixels, blocks.append))
    assert len(blocks) == 4
    assert plain.keys() == seen.keys()
    assert all(torch.equal(plain[key], seen[key]) for key in plain)


@pytest.mark.parametrize("name", BUILDERS)
def test_prefix_tokens_are_counted_and_never_removed(name: str) -> None:
    model = build(name)
    handle = hosts.find(model)
    expected = next((count for stem, count in PREFIX.items() if name.startswith(stem)), 1)
    assert handle.facts.num_prefix == expected
    catis.apply(model, "catis", r=100)
    trace = catis.trace(model, inputs_for(model)["pixel_values"])
    assert trace[-1].tokens_left == 1 + (trace[0].tokens_in == 32)  # halved four times: 16, 12 or 32 patches
    assert trace[-1].state.num_prefix == expected


@torch.no_grad()
def test_only_the_vision_tower_of_clip_is_touched() -> None:
    model = build("CLIPModel")
    inputs = inputs_for(model)
    before = model.get_text_features(inputs["input_ids"]).pooler_output
    kind = type(model.text_model)
    catis.apply(model, "tome", r=3)
    assert type(model.text_model) is kind
    assert torch.equal(model.get_text_features(inputs["input_ids"]).pooler_output, before)
    assert model(**inputs).logits_per_image.shape == (2, 2)
