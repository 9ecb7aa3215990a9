"""A reduced forward of every transformers family equals the slow computation of hf_reference, in float64."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import catis
from tests.hosts import hf_reference as slow
from tests.hosts.hf_models import BUILDERS, build, inputs_for

R, DEPTH, TOLERANCE = 3, 4, 1e-9
THETA = {
    "tau": slow.TAU,
    "evict_ratio": slow.EVICT_RATIO,
    "gamma": slow.GAMMA,
    "w_cls": slow.W_CLS,
    "l_start": slow.L_START,
}


def core_of(model: nn.Module) -> Any:
    """The module that holds the layers."""
    for name in ("vit", "deit", "dinov2", "dinov2_with_registers", "vision_model", "videomae", "ijepa"):
        if hasattr(model, name):
            return getattr(model, name)
    return model


def vit_layer(layer: Any) -> slow.Layer:
    attn = layer.attention
    mlp = lambda x: layer.mlp(layer.layernorm_after(x))  # noqa: E731
    parts = (attn.q_proj, attn.k_proj, attn.v_proj, attn.o_proj)
    return slow.Layer(layer.layernorm_before, *parts, lambda u: u, mlp, attn.num_attention_heads)


def dino_layer(layer: Any) -> slow.Layer:
    attn = layer.attention
    scale1, scale2 = layer.layer_scale1.lambda1, layer.layer_scale2.lambda1
    mlp = lambda x: scale2 * layer.mlp(layer.norm2(x))  # noqa: E731
    heads = getattr(attn, "num_heads", None) or attn.num_attention_heads
    return slow.Layer(layer.norm1, attn.q_proj, attn.k_proj, attn.v_proj, attn.o_proj, lambda u: scale1 * u, mlp, heads)


def clip_layer(layer: Any) -> slow.Layer:
    attn = layer.self_attn
    mlp = lambda x: layer.mlp(layer.layer_norm2(x))  # noqa: E731
    parts = (attn.q_proj, attn.k_proj, attn.v_proj, attn.out_proj)
    return slow.Layer(layer.layer_norm1, *parts, lambda u: u, mlp, attn.num_heads)


def video_layer(layer: Any) -> slow.Layer:
    attn = layer.attention.attention
    up, down = layer.intermediate, layer.output.dense
    mlp = lambda x: down(up(layer.layernorm_after(x)))  # noqa: E731
    parts = (attn.query, attn.key, attn.value, layer.attention.output.dense)
    return slow.Layer(layer.layernorm_before, *parts, lambda u: u, mlp, attn.num_attention_heads)


def slow_layers(core: Any) -> list[slow.Layer]:
    kind = type(core).__name__
    if "ino" in kind or "INO" in kind:
        return [dino_layer(layer) for layer in (core.model if "v3" in kind else core.encoder).layer]
    if kind in ("CLIPVisionModel", "SiglipVisionModel"):
        return [clip_layer(layer) for layer in core.encoder.layers]
    return (
        [video_layer(layer) for layer in core.encoder.layer] if "Video" in kind else [vit_layer(x) for x in core.layers]
    )


def num_prefix(core: Any) -> int:
    kind = type(core).__name__
    if kind in ("IJepaModel", "SiglipVisionModel", "VideoMAEModel"):
        return 0
    return {"DeiTModel": 2, "Dinov2WithRegistersModel": 5, "DINOv3ViTModel": 5}.get(kind, 1)


def slow_rope(core: Any, patches: int) -> list[Tensor | None]:
    """DINOv3's angles from its definition: 2 pi times the patch centre in [-1, 1] over base ** (4 i / d)."""
    if type(core).__name__ != "DINOv3ViTModel":
        return [None] * patches
    side, dim = math.isqrt(patches), core.config.hidden_size // core.config.num_attention_heads
    rows: list[Tensor | None] = []
    frequency = 1 / core.config.rope_theta ** torch.arange(0, 1, 4 / dim, dtype=torch.float32)
    frequency = frequency.double()  # transformers keeps it, and 2 pi times the centre, in float32
    for patch in range(patches):
        centre = [2 * (0.5 + place) / side - 1 for place in divmod(patch, side)]
        angles = torch.cat([(2 * math.pi * torch.tensor(c)).double() * frequency for c in centre]).repeat(2)
        rows.append(torch.cat([angles.cos(), angles.sin()]))
    return rows


def slow_tokens(core: Any, inputs: dict[str, Tensor], method: str) -> list[slow.Tokens]:
    """Last tokens of every image, before the final norm."""
    embed_inputs = {key: value for key, value in inputs.items() if key != "input_ids"}
    x = core.embeddings(*embed_inputs.values(), *([None] if "Video" in type(core).__name__ else []))
    x = x[0] if isinstance(x, tuple) else x
    x = core.pre_layrnorm(x) if hasattr(core, "pre_layrnorm") else x
    prefix, layers = num_prefix(core), slow_layers(core)
    has_cls = prefix > 0
    images = []
    for image in x:
        count = len(image) - prefix
        start = slow.Tokens(image[:prefix], list(image[prefix:]), [[i] for i in range(count)], slow_rope(core, count))
        images.append(slow.run(layers, start, method, R, has_cls))
    return images


def slow_probe(head: Any, tokens: slow.Tokens, patches: Tensor) -> Tensor:
    """SigLIP's probe attention, head by head, log(size) on its logits."""
    width, heads = patches.shape[1], head.attention.num_heads
    weights, biases = head.attention.in_proj_weight.chunk(3), head.attention.in_proj_bias.chunk(3)
    query, key, value = (
        x @ w.T + b for x, w, b in zip((head.probe[0], patches, patches), weights, biases, strict=True)
    )
    outputs = []
    for index in range(heads):
        part = slice(index * width // heads, (index + 1) * width // heads)
        logits = query[:, part] @ key[:, part].T / math.sqrt(width // heads) + tokens.weights().log()
        outputs.append(logits.softmax(-1) @ value[:, part])
    pooled = head.attention.out_proj(torch.cat(outputs, -1))
    return (pooled + head.mlp(head.layernorm(pooled)))[0]


def final_norm(core: Any) -> Callable[[Tensor], Tensor]:
    kind = type(core).__name__
    if kind == "CLIPVisionModel" or getattr(core, "layernorm", core) is None:
        return lambda tokens: tokens
    return getattr(core, {"DINOv3ViTModel": "norm", "SiglipVisionModel": "post_layernorm"}.get(kind, "layernorm"))


def slow_answer(model: Any, inputs: dict[str, Tensor], method: str) -> dict[str, Tensor]:
    """What the model must return, from the slow tokens: sequence, pooled vector and logits where it has them."""
    core = core_of(model)
    norm = final_norm(core)
    rows: list[dict[str, Tensor]] = []
    for tokens in slow_tokens(core, inputs, method):
        prefix, patches = norm(tokens.prefix), norm(torch.stack(tokens.patches))
        row = {"last_hidden_state": torch.cat([prefix, slow.full_grid(tokens, patches)])}
        mean = slow.weighted_mean(tokens, patches)
        kind = type(model).__name__
        if type(core).__name__ == "SiglipVisionModel":
            row["pooler_output"] = slow_probe(core.head, tokens, patches)
        elif type(core).__name__ == "CLIPVisionModel":
            row["pooler_output"] = core.post_layernorm(prefix[0])
        if kind == "DeiTForImageClassificationWithTeacher":
            row["logits"] = (model.cls_classifier(prefix[0]) + model.distillation_classifier(prefix[1])) / 2
        elif kind.startswith("Dinov2") and hasattr(model, "classifier"):
            row["logits"] = model.classifier(torch.cat([prefix[0], mean]))
        elif kind in ("CLIPForImageClassification", "SiglipForImageClassification", "IJepaForImageClassification"):
            row["logits"] = model.classifier(mean)
        elif kind == "VideoMAEForVideoClassification":
            row["logits"] = model.classifier(model.fc_norm(mean))
        elif hasattr(model, "classifier"):
            row["logits"] = model.classifier(prefix[0])
        rows.append(row)
    return {key: torch.stack([row[key] for row in rows]) for key in rows[0]}


@pytest.mark.parametrize("method", ["tome", "catis"])
@pytest.mark.parametrize("name", BUILDERS)
@torch.no_grad()
def test_reduced_forward_equals_the_slow_computation(name: str, method: str) -> None:
    model = build(name).double()
    inputs = inputs_for(model, dtype=torch.float64)
    expected = slow_answer(model, inputs, method)
    catis.apply(model, method, r=R, **(THETA if method == "catis" else {}))
    output = model(**inputs)
    whole = {"CLIPModel", "SiglipModel"}
    found = output.vision_model_output if type(model).__name__ in whole else output
    if type(model).__name__ == "CLIPModel":  # it projects the pooled vector in place
        expected["pooler_output"] = model.visual_projection(expected["pooler_output"])
    checked = [key for key in expected if key in found]
    assert checked
    for key in checked:
        torch.testing.assert_close(found[key], expected[key], rtol=0, atol=TOLERANCE, msg=lambda m, k=key: f"{k}: {m}")


@pytest.mark.parametrize("name", ["Dinov2ForImageClassification", "SiglipVisionModel"])
@torch.no_grad()
def test_catis_evicts_in_this_configuration(name: str) -> None:
    """Otherwise the test above would not see how pools treat evicted patches."""
    model = build(name).double()
    images = slow_tokens(core_of(model), inputs_for(model, dtype=torch.float64), "catis")
    assert any(tokens.evicted for tokens in images)
    assert any(len(group) > 1 for tokens in images for group in tokens.groups)
