"""What is on a model: `catis.info`, the printed model, and the recipe say the same, on timm and transformers alike."""

import json

import pytest
import timm
import torch
import transformers

import catis
from catis import hosts, zoo
from catis.macs import gmacs
from catis.recipes import Recipe, load_recipe


def timm_model() -> torch.nn.Module:
    return timm.create_model("test_vit", num_classes=3).eval()


def hf_model() -> torch.nn.Module:
    config = transformers.ViTConfig(
        hidden_size=32, num_hidden_layers=3, num_attention_heads=2, intermediate_size=64, image_size=32, patch_size=8,
        id2label={0: "cat", 1: "dog"}, label2id={"cat": 0, "dog": 1},
    )  # fmt: skip
    return transformers.ViTForImageClassification(config).eval()


@pytest.mark.parametrize("build", [timm_model, hf_model])
def test_info_is_what_the_model_does(build):
    model = build()
    name, before = type(model).__name__, catis.info(model)
    assert (before.method, before.r) == ("vanilla", 0)
    assert before.gmacs == before.gmacs_vanilla
    assert set(before.tokens) == {before.patches}
    catis.apply(model, "tome", r=2, prop_attn=False)
    after = catis.info(model)
    assert (after.model, after.method, after.r, after.prop_attn) == (name, "tome", 2, False)
    seen = catis.trace(model, torch.rand(hosts.find(model).example_shape(1)))
    assert after.tokens == tuple(block.tokens_left for block in seen)
    assert after.gmacs == gmacs(model) < after.gmacs_vanilla == before.gmacs
    assert json.loads(json.dumps(after.to_json()))["tokens"] == list(after.tokens)
    assert "tome r=2" in str(after)
    assert "catis=tome r=2" in repr(model)
    assert "catis=" not in repr(catis.remove(model))


@pytest.mark.parametrize("build", [timm_model, hf_model])
def test_a_recipe_names_the_users_class_and_how_images_are_prepared(build, tmp_path):
    model = catis.apply(build(), "tome", r=2)
    name, wanted = type(model).__name__, hosts.find(model).preprocessing()
    recipe = load_recipe(catis.save_recipe(model, tmp_path / "recipe.json"))
    assert recipe.model == name in ("VisionTransformer", "ViTForImageClassification")
    assert tuple(recipe.preprocessing["size"]) == wanted.size
    assert tuple(recipe.preprocessing["mean"]) == wanted.mean
    assert recipe.labels == (() if build is timm_model else ("cat", "dog"))
    assert Recipe.from_json(recipe.to_json()) == recipe


def test_labels_are_the_models_own_or_imagenets():
    assert hosts.find(zoo.load("tiny-6")).labels == zoo.dataset("clean", n=1).classes
    assert hosts.find(timm.create_model("test_vit")).labels[281] == "tabby"
    assert hosts.find(timm.create_model("test_vit", num_classes=3)).labels == ()
    own = timm.create_model("test_vit", num_classes=2)
    own.pretrained_cfg = {"label_names": ["a1", "b2"], "label_descriptions": {"a1": "apple"}}
    assert hosts.find(own).class_names == ("a1", "b2")
    assert hosts.find(own).labels == ("apple", "b2")
