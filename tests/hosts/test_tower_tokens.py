"""output="tokens": the language model reads the tokens that are left, with a prompt that is as much shorter."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch import Tensor

import catis
from catis import hosts
from catis.recipes.files import recipe_of
from tests.hosts import tower_reference as reference
from tests.hosts.hf_models import build as build_encoder
from tests.hosts.test_towers import METHODS, options
from tests.hosts.tower_models import IMAGE, build, call_of, pixels, prompt

R = 3
LEFT = {"LLaVA-CLIP": 16 - 3 * R, "LLaVA-SigLIP": 4, "PaliGemma": 4}  # LLaVA reads the last block but one


def slow_features(model: Any, name: str, images: Tensor, method: str) -> Tensor:
    """Projected tokens that are left, by the first patch of each, from the slow computation."""
    vit, clip = hosts.find(model).vit, name == "LLaVA-CLIP"
    layers = [reference.siglip_layer(layer) for layer in vit.encoder.layers][: 3 if clip else 4]
    embedded = vit.pre_layrnorm(vit.embeddings(images)) if clip else vit.embeddings(images)
    rows = []
    for x in embedded:
        tokens = reference.run(layers, x, int(clip), method)
        order = sorted(range(len(tokens.groups)), key=lambda index: min(tokens.groups[index]))
        rows.append(torch.stack([tokens.patches[index] for index in order]))
    last = torch.stack(rows)
    last = vit.post_layernorm(last) if name == "PaliGemma" else last
    return model.model.multi_modal_projector(last)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("name", LEFT)
@torch.no_grad()
def test_the_language_model_reads_what_the_slow_computation_leaves(name: str, method: str) -> None:
    model, call = build(name).double(), call_of(name)
    call["pixel_values"] = call["pixel_values"].double()
    features = slow_features(model, name, call["pixel_values"], method)
    assert features.shape[:2] == (2, LEFT[name])
    ids = prompt(LEFT[name], LEFT[name])["input_ids"]
    embeds = model.get_input_embeddings()(ids)
    embeds = embeds.masked_scatter((ids == IMAGE).unsqueeze(-1), features)
    kinds = {"token_type_ids": torch.zeros_like(ids)} if "token_type_ids" in call else {}
    expected = model(inputs_embeds=embeds, attention_mask=torch.ones_like(ids), **kinds).logits
    catis.apply(model, method, output="tokens", **options(method))
    torch.testing.assert_close(model(**call).logits, expected, rtol=0, atol=1e-9)
    short = {**call, **prompt(LEFT[name], LEFT[name]), **kinds}  # a prompt that is short already is taken as it is
    torch.testing.assert_close(model(**short).logits, expected, rtol=0, atol=1e-9)


@pytest.mark.parametrize("name", LEFT)
@torch.no_grad()
def test_generation(name: str) -> None:
    model, call = build(name), call_of(name)
    plain = model.generate(**call, max_new_tokens=4, do_sample=False)
    kinds = [type(module) for module in model.modules()]
    catis.apply(model, "tome", r=0, output="tokens")
    assert torch.equal(model.generate(**call, max_new_tokens=4, do_sample=False), plain)
    catis.apply(model, "tome", r=R, output="tokens")
    said = model.generate(**call, max_new_tokens=4, min_new_tokens=4, do_sample=False)
    assert said.shape[1] == call["input_ids"].shape[1] - 2 * (16 - LEFT[name]) + 4
    assert int((said == IMAGE).sum()) == 2 * LEFT[name]
    other = copy.deepcopy(model)
    assert torch.equal(other.generate(**call, max_new_tokens=4, min_new_tokens=4, do_sample=False), said)
    steps = said[:, :-4]  # greedy decoding by hand, without a cache
    for _ in range(4):
        short = {**call, "input_ids": steps, "attention_mask": torch.ones_like(steps)}
        short.pop("token_type_ids", None)
        if name == "PaliGemma":
            break  # its prompt is seen in both directions, what it says in one: not the same call
        steps = torch.cat([steps, model(**short).logits[:, -1:].argmax(-1)], 1)
    assert name == "PaliGemma" or torch.equal(steps, said)
    catis.apply(model, "tome", r=R)
    assert model(**call).logits.shape[1] == call["input_ids"].shape[1]
    catis.remove(catis.apply(model, "tome", r=R, output="tokens"))
    assert [type(module) for module in model.modules()] == kinds
    assert torch.equal(model.generate(**call, max_new_tokens=4, do_sample=False), plain)


@torch.no_grad()
def test_labels_batches_and_the_recipe() -> None:
    model = build("LLaVA-CLIP")
    catis.apply(model, "tome", r=R, output="tokens")
    text = prompt(16)
    batch = {key: value.repeat(2, 1) for key, value in text.items()}
    labels = batch["input_ids"].masked_fill(batch["input_ids"] == IMAGE, -100)
    output = model(**batch, pixel_values=pixels(2, 3, 32, 32), labels=labels)
    assert output.logits.shape[1] == text["input_ids"].shape[1] - 9
    assert output.loss.isfinite()
    content = recipe_of(model).to_json()
    assert content["output"] == "tokens"
    other = catis.apply(build("LLaVA-CLIP"), recipe=content)
    assert torch.equal(other(**batch, pixel_values=pixels(2, 3, 32, 32)).logits, output.logits)


@torch.no_grad()
def test_what_cannot_be_shortened_is_refused() -> None:
    model = catis.apply(build("LLaVA-CLIP"), "tome", r=R, output="tokens")
    call = call_of("LLaVA-CLIP")
    with pytest.raises(ValueError, match="expected 16 each, as the processor writes them, or 7"):
        model(**{**call, **prompt(16, 15)})
    with pytest.raises(ValueError, match="position_ids was given"):
        model(**call, position_ids=torch.arange(41)[None])
    with pytest.raises(ValueError, match="several layers"):
        model(**call, vision_feature_layer=[-2, -1])
    one, none = prompt(16)["input_ids"], torch.full((1, 22), 7)
    ids = torch.cat([one, none[:, : one.shape[1]]])
    with pytest.raises(ValueError, match="pass one text at a time"):
        model(input_ids=ids, pixel_values=pixels(1, 3, 32, 32))


@pytest.mark.parametrize("name", ["Gemma3", "InternVL", "Qwen2.5-VL", "LLaVA-OneVision", "Idefics3"])
def test_models_that_join_neighbours_are_refused_by_name(name: str) -> None:
    model = build(name)
    with pytest.raises(ValueError, match=f"output='tokens': {type(model).__name__} cannot take fewer image tokens"):
        catis.apply(model, "tome", r=R, output="tokens")
    assert hosts.find(model).reduction is None


def test_encoders_and_wrong_words_are_refused() -> None:
    with pytest.raises(ValueError, match="output='tokens'"):
        catis.apply(build_encoder("ViTForImageClassification"), "tome", r=R, output="tokens")
    with pytest.raises(ValueError, match="output='rows': expected one of"):
        catis.apply(build("LLaVA-CLIP"), "tome", r=R, output="rows")
