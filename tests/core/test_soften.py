"""How softer attention gets as tokens go, and the size term's gain over the depth."""

import copy

import pytest
import timm
import torch

import catis
from catis.core.reduction import Reduction

transformers = pytest.importorskip("transformers")


def vit(fused: bool = True):
    torch.manual_seed(0)
    model = timm.create_model("vit_tiny_patch16_224", img_size=64, depth=5).eval().double()
    for block in model.blocks:
        block.attn.fused_attn = fused
    return model, [block.attn.qkv for block in model.blocks]


def hf():
    torch.manual_seed(0)
    config = transformers.ViTConfig(
        hidden_size=48, num_hidden_layers=5, num_attention_heads=3, intermediate_size=96, image_size=64, num_labels=7
    )
    model = transformers.ViTForImageClassification(config).eval().double()
    return model, [layer.attention.q_proj for layer in model.vit.layers]


def logits(model, images):
    out = model(images)
    return out if isinstance(out, torch.Tensor) else out.logits


def queries_scaled(build, factors):
    """The model with queries that are smaller by a factor of the block's."""
    model, layers = build()
    with torch.no_grad():
        for layer, factor in zip(layers, factors, strict=True):
            width = layer.weight.shape[1]
            layer.weight[:width] *= factor
            layer.bias[:width] *= factor
    return model


@pytest.mark.parametrize("build", [vit, lambda: vit(fused=False), hf], ids=["fused", "explicit", "transformers"])
@pytest.mark.parametrize("head_only", [None, True])
def test_logits_are_multiplied_by_what_is_gone(build, head_only):
    """The same as smaller queries: 1 - soften x (share of the 16 patch tokens gone before the block)."""
    images, r = torch.rand(2, 3, 64, 64).double(), [0, 4, 4, 2, 0]
    expected = queries_scaled(build, [1 - 0.3 * gone / 16 for gone in (0, 0, 4, 8, 10)])
    model, _ = build()
    for reduced, soften in ((expected, 0.0), (model, 0.3)):
        catis.apply(reduced, "catis", r=r, soften=soften, head_only=head_only)
    assert torch.allclose(logits(model, images), logits(expected, images), rtol=0, atol=1e-10)
    catis.apply(expected, "catis", r=r, soften=0.3, head_only=head_only)
    assert not torch.allclose(logits(model, images), logits(expected, images), rtol=0, atol=1e-6)


def test_nothing_is_softer_where_nothing_goes():
    model, _ = vit()
    images = torch.rand(2, 3, 64, 64).double()
    vanilla = model(images)
    assert torch.equal(catis.apply(model, "tome", r=0, soften=0.5)(images), vanilla)
    assert torch.equal(catis.apply(model, "cluster", r=[0, 0, 0, 0, 0])(images), vanilla)


def test_cluster_does_both_by_itself_and_others_when_they_are_asked():
    model, _ = vit()
    images, rising = torch.rand(2, 3, 64, 64).double(), [0.2, 0.4, 0.6, 0.8, 1.0]

    def run(method, **switches):
        return catis.apply(copy.deepcopy(model), method, r=3, **switches)(images)

    own = catis.info(catis.apply(copy.deepcopy(model), "cluster", r=3))
    assert (own.soften, own.size_gain) == (0.1, tuple(rising))
    assert torch.allclose(run("cluster"), run("cluster", soften=0.1, size_gain=rising), rtol=0, atol=1e-12)
    assert not torch.equal(run("cluster"), run("cluster", soften=0.0))
    for method in ("tome", "tofu", "pitome", "mctf", "catis"):
        told = catis.info(catis.apply(copy.deepcopy(model), method, r=3))
        assert (told.soften, told.size_gain) == (0.0, 1.0)
        assert torch.equal(run(method), run(method, soften=0.0, size_gain=1.0))
        assert not torch.equal(run(method), run(method, soften=0.1))


def test_it_is_kept_and_what_means_nothing_is_refused():
    assert Reduction.from_json(Reduction.of("tome", 8, soften=0.25).to_json()).softens(3) == 0.25
    assert "soften" not in Reduction.of("cluster", 8).to_json()
    for wrong in (1, -0.1, True, "a little", float("nan")):
        with pytest.raises(ValueError, match=r"soften=.*: expected a number >= 0 and below 1"):
            Reduction.of("tome", 8, soften=wrong)
    with pytest.raises(ValueError, match=r"soften=0\.1: this form of mctf attends in a way of its own"):
        Reduction.of("mctf", 2, reference=True, soften=0.1).bound(12, 1)
