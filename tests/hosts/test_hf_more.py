"""Further encoders of transformers and their backbones: r=0 is the same model, r > 0 equals the slow computation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import transformers as hf
from torch import Tensor

import catis
from catis import hosts
from catis.errors import UnsupportedModelError
from tests.hosts import hf_reference as slow
from tests.hosts import tower_reference as reference
from tests.hosts.hf_models import DINO, SMALL, tensors
from tests.hosts.test_hf_reduced import THETA, dino_layer, vit_layer
from tests.hosts.tower_models import pixels

R = reference.R
AUDIO = {key: value for key, value in SMALL.items() if key != "image_size"}
MAPS = {"out_indices": [2, 4], "reshape_hidden_states": True}
DEPTH = {"reassemble_hidden_size": 32, "fusion_hidden_size": 8, "head_hidden_size": 8, "patch_size": 8}
STAGES = {"out_indices": [1, 2, 3, 4], "reshape_hidden_states": False}
D2V = {"use_relative_position_bias": False, "use_absolute_position_embeddings": True, "use_mean_pooling": True}
POSE = {"image_size": [32, 32], "patch_size": [8, 8], "out_indices": [2, 4], "mlp_ratio": 2}

BUILDERS: dict[str, Callable[[], Any]] = {
    "ViTMSNForImageClassification": lambda: hf.ViTMSNForImageClassification(hf.ViTMSNConfig(**SMALL)),
    "VivitForVideoClassification": lambda: hf.VivitForVideoClassification(
        hf.VivitConfig(**SMALL, num_frames=4, tubelet_size=[2, 8, 8])
    ),
    "ASTForAudioClassification": lambda: hf.ASTForAudioClassification(
        hf.ASTConfig(**AUDIO, frequency_stride=6, time_stride=6, max_length=28, num_mel_bins=20)
    ),
    "Data2VecVisionForImageClassification": lambda: hf.Data2VecVisionForImageClassification(
        hf.Data2VecVisionConfig(**SMALL, **D2V)
    ),
    "Dinov2Backbone": lambda: hf.AutoBackbone.from_config(hf.Dinov2Config(**DINO, **MAPS)),
    "Dinov2WithRegistersBackbone": lambda: hf.AutoBackbone.from_config(hf.Dinov2WithRegistersConfig(**DINO, **MAPS)),
    "DINOv3ViTBackbone": lambda: hf.AutoBackbone.from_config(hf.DINOv3ViTConfig(**DINO, **MAPS, num_register_tokens=4)),
    "VitPoseBackbone": lambda: hf.VitPoseBackbone(hf.VitPoseBackboneConfig(**{**SMALL, **POSE})),
    "DepthAnythingForDepthEstimation": lambda: hf.DepthAnythingForDepthEstimation(
        hf.DepthAnythingConfig(
            backbone_config=hf.Dinov2Config(**DINO, **STAGES), neck_hidden_sizes=[8, 8, 8, 8], **DEPTH
        )
    ),
    "DPTForDepthEstimation": lambda: hf.DPTForDepthEstimation(
        hf.DPTConfig(
            backbone_config=hf.Dinov2Config(**DINO, **STAGES),
            neck_hidden_sizes=[8, 8, 8, 8],
            fusion_hidden_size=8,
            patch_size=8,
            image_size=32,
            hidden_size=32,
        )
    ),
}
PREFIX = {"AST": 2, "Dinov2With": 5, "DINOv3": 5, "VitPose": 0}
CLASSIFIERS = [name for name in BUILDERS if "Classification" in name]
BACKBONES = [name for name in BUILDERS if "Backbone" in name]


def build(name: str) -> Any:
    torch.manual_seed(3)
    model = BUILDERS[name]().eval()
    with torch.no_grad():
        for key, weight in model.named_parameters():
            offset = 1.0 if "norm" in key and key.endswith("weight") else 0.0
            weight.normal_(offset, 0.3 if weight.ndim == 1 else 1.5 / weight.shape[-1] ** 0.5)
    return model


def inputs_for(name: str, dtype: torch.dtype = torch.float32) -> Tensor:
    shapes = {"Vivit": (2, 4, 3, 32, 32), "AST": (2, 28, 20)}
    return pixels(
        *next((shape for stem, shape in shapes.items() if name.startswith(stem)), (2, 3, 32, 32)), dtype=dtype
    )


def prefix_of(name: str) -> int:
    return next((count for stem, count in PREFIX.items() if name.startswith(stem)), 1)


@pytest.mark.parametrize("name", BUILDERS)
@torch.no_grad()
def test_r_0_is_the_plain_model_also_through_the_adapter(name: str) -> None:
    model, x = build(name), inputs_for(name)
    handle = hosts.find(model)
    assert handle.facts.num_prefix == prefix_of(name)
    plain, inner = tensors(model(x)), tensors(handle.vit(x))
    catis.apply(model, "catis", r=0)
    assert all(torch.equal(value, plain[key]) for key, value in tensors(model(x)).items())
    found = tensors(handle.run(handle.reduction, None, x))
    assert found.keys() == inner.keys()
    assert all(torch.equal(found[key], inner[key]) for key in found)
    catis.apply(model, "catis", r=R)
    reduced = tensors(model(x))
    assert {key: value.shape for key, value in reduced.items()} == {key: value.shape for key, value in plain.items()}
    assert not any(torch.equal(reduced[key], plain[key]) for key in plain)
    assert catis.gmacs(model) < catis.gmacs(model, r=0)


def nested_layer(layer: Any) -> slow.Layer:
    attn, out = layer.attention.attention, layer.attention.output
    if hasattr(layer, "lambda_1"):
        mlp = lambda x: layer.lambda_2 * layer.output(layer.intermediate(layer.layernorm_after(x)))  # noqa: E731
        scale = lambda u: layer.lambda_1 * u  # noqa: E731
    else:
        mlp = lambda x: layer.mlp(layer.layernorm_after(x))  # noqa: E731
        scale = lambda u: u  # noqa: E731
    parts = (attn.query, attn.key, attn.value, lambda x: out(x, x))
    return slow.Layer(layer.layernorm_before, *parts, scale, mlp, attn.num_attention_heads)


def slow_images(name: str, vit: Any, x: Tensor, method: str, depth: int = 4) -> list[slow.Tokens]:
    """Every image of a batch after the first `depth` blocks."""
    if name.startswith(("VitPose", "Data2Vec")):
        layers = [nested_layer(layer) for layer in vit.encoder.layer]
    elif name.startswith("Dino"):
        layers = [dino_layer(layer) for layer in vit.encoder.layer]
    elif name.startswith("DINOv3"):
        layers = [dino_layer(layer) for layer in vit.model.layer]
    else:
        layers = [vit_layer(layer) for layer in vit.layers]
    embedded = vit.embeddings(x)
    embedded = embedded[0] if isinstance(embedded, tuple) else embedded
    rope = torch.cat(vit.rope_embeddings(x), -1) if name.startswith("DINOv3") else None
    return [reference.run(layers[:depth], one, prefix_of(name), method, rope) for one in embedded]


@pytest.mark.parametrize("method", ["tome", "catis"])
@pytest.mark.parametrize("name", CLASSIFIERS)
@torch.no_grad()
def test_classifiers_equal_the_slow_computation(name: str, method: str) -> None:
    model, x = build(name).double(), inputs_for(name, torch.float64)
    vit, rows = hosts.find(model).vit, []
    for tokens in slow_images(name, vit, x, method):
        prefix = vit.layernorm(tokens.prefix)
        pooled = {"AST": lambda p=prefix: (p[0] + p[1]) / 2}.get(name[:3], lambda p=prefix: p[0])()
        if name.startswith("Data2Vec"):
            pooled = vit.pooler.layernorm(slow.weighted_mean(tokens, torch.stack(tokens.patches)))
        rows.append(model.classifier(pooled))
    catis.apply(model, method, r=R, **(THETA if method == "catis" else {}))
    torch.testing.assert_close(model(x).logits, torch.stack(rows), rtol=0, atol=1e-9)


@pytest.mark.parametrize("method", ["tome", "catis"])
@pytest.mark.parametrize("name", BACKBONES)
@torch.no_grad()
def test_maps_of_backbones_equal_the_slow_computation(name: str, method: str) -> None:
    model, x = build(name).double(), inputs_for(name, torch.float64)
    norm = model.norm if name.startswith("DINOv3") else model.layernorm
    expected = []
    for depth in (2, 4):
        grids = [reference.own_values(tokens) for tokens in slow_images(name, model, x, method, depth)]
        maps = norm(torch.stack(grids))
        expected.append(maps if name == "VitPoseBackbone" else maps.view(2, 4, 4, 32).permute(0, 3, 1, 2))
    catis.apply(model, method, r=R, **(THETA if method == "catis" else {}))
    for found, wanted in zip(model(x).feature_maps, expected, strict=True):
        torch.testing.assert_close(found, wanted, rtol=0, atol=1e-9)


@torch.no_grad()
def test_hidden_states_of_a_backbone_and_hooks_on_a_block_that_returns_a_tuple() -> None:
    model, x = build("Dinov2Backbone"), inputs_for("Dinov2Backbone")
    catis.apply(model, "tome", r=R)
    assert model(x).hidden_states is None
    assert [state.shape for state in model(x, output_hidden_states=True).hidden_states] == [(2, 17, 32)] * 5
    model, seen = build("Data2VecVisionForImageClassification"), []
    catis.apply(model, "tome", r=R)
    block = model.data2vec_vision.encoder.layer[1]
    block.register_forward_hook(lambda _, args, output: seen.append((args[0].shape[1], output[0].shape[1])))
    model(x)
    assert seen == [(14, 11)]


def test_what_is_refused_is_named_with_its_reason() -> None:
    small = {**SMALL, "num_hidden_layers": 1}
    refused = {
        "TimesformerModel: divided attention": hf.TimesformerModel(hf.TimesformerConfig(**small)),
        "BeitModel: a bias for every pair": hf.BeitModel(hf.BeitConfig(**small)),
        "DPTModel: a read-out in the middle": hf.DPTModel(hf.DPTConfig(**small, backbone_out_indices=[0])),
        "found a bias for every pair": hf.Data2VecVisionModel(
            hf.Data2VecVisionConfig(**small, use_relative_position_bias=True)
        ),
        "found a mixture of experts": hf.VitPoseBackbone(
            hf.VitPoseBackboneConfig(**{**small, **POSE, "out_indices": [1]}, num_experts=2, part_features=8)
        ),
    }
    for words, model in refused.items():
        with pytest.raises(UnsupportedModelError, match=words):
            catis.apply(model, "tome", r=1)
