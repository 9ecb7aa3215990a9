"""For every timm family: r=0 is the model bit for bit, r>0 is what SPEC says, dense outputs keep the full grid."""

import contextlib

import pytest
import timm
import torch
from timm.models.vision_transformer import VisionTransformer

import catis
from catis.core.execute import execute, unmerge
from catis.core.state import TokenState
from catis.errors import UnsupportedModelError
from catis.hosts import find
from catis.hosts.swap import Reduced
from tests import naive

from .families import FAMILIES, FLOAT32_ONLY, build, images

METHODS = ["tome", "tofu", "pitome", "mctf", "catis", "cluster"]
ALL = sorted(FAMILIES)


def precision(family):
    """dtype and tolerance of a comparison with the naive computation."""
    return (torch.float32, 1e-5) if family in FLOAT32_ONLY else (torch.float64, 1e-9)


@pytest.mark.parametrize("family", ALL)
@pytest.mark.parametrize("fused", [True, False], ids=["fused", "plain"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_r0_is_the_model_itself(family, fused, dtype):
    if family in FLOAT32_ONLY and dtype != torch.float32:
        pytest.skip("the unreduced model does not run in this dtype")
    model = build(family, dtype=dtype)
    for block in model.blocks:
        block.attn.fused_attn = fused
    x = images(model, dtype=dtype)
    with torch.no_grad():
        expected = model(x)
        catis.apply(model, "catis", r=0)
        assert torch.equal(model(x), expected)
        # and also when the blocks run through our adapter instead of their own forward
        assert torch.equal(find(model).watch(x, lambda record: None), expected)
        assert torch.equal(catis.remove(model)(x), expected)


@pytest.mark.parametrize("family", ALL)
@pytest.mark.parametrize("method", ["tome", "catis"])
def test_reduced_forward_equals_a_naive_one(family, method):
    dtype, tolerance = precision(family)
    model = build(family, dtype=dtype)
    x = images(model, dtype=dtype)
    decide = naive.tome if method == "tome" else naive.make_catis()
    with torch.no_grad():
        expected = naive.forward(model, x, decide, r=3)
        vanilla = model(x)
        ours = catis.apply(model, method, r=3)(x)
    torch.testing.assert_close(ours, expected, rtol=tolerance, atol=tolerance)
    assert (ours - vanilla).abs().max() > 2 * (ours - expected).abs().max()


@pytest.mark.parametrize(
    "theta",
    [
        {"tau": 0.2, "evict_ratio": 0.9},
        {"tau": 0.05, "evict_ratio": 0.0, "l_start": 0},
        {"tau": 2.5, "gamma": 0.0, "w_cls": 1.0},
        {"tau": 0.0, "evict_ratio": 0.3, "gamma": 1.5},
    ],
    ids=str,
)
@pytest.mark.parametrize("r", [1, 5, 100])
def test_triage_equals_a_naive_one_at_the_edges(theta, r):
    model = build("vit", depth=5, dtype=torch.float64)
    x = images(model, batch=4, dtype=torch.float64)
    with torch.no_grad():
        expected = naive.forward(model, x, naive.make_catis(**theta), r=r)
        ours = catis.apply(model, "catis", r=r, **theta)(x)
    torch.testing.assert_close(ours, expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("family", ALL)
@pytest.mark.parametrize("method", METHODS)
def test_dense_outputs_keep_the_grid(family, method):
    model = build(family)
    x = images(model)
    with torch.no_grad():
        plain = model.forward_features(x)
        plain_maps = model.forward_intermediates(x, indices=2, norm=True, return_prefix_tokens=False)[1]
        catis.apply(model, method, r=3)
        features = model.forward_features(x)
        final, maps = model.forward_intermediates(x, indices=2, norm=True)
        assert features.shape == plain.shape
        assert torch.equal(final, features)
        assert [one.shape for one in maps] == [one.shape for one in plain_maps]
        assert torch.isfinite(features).all()
        assert not torch.equal(features, plain)
        early = model.forward_intermediates(x, indices=[0], stop_early=True, intermediates_only=True, output_fmt="NLC")
        assert early[0].shape == plain[:, model.num_prefix_tokens :].shape
        prefix = model.num_prefix_tokens
        if prefix:
            both = model.forward_intermediates(x, indices=1, return_prefix_tokens=True, intermediates_only=True)
            assert both[0][1].shape == plain[:, :prefix].shape


@pytest.mark.parametrize("family", ALL)
@pytest.mark.parametrize("method", METHODS)
def test_the_head_of_full_grid_features_is_the_forward_pass(family, method):
    """Prefix readouts and average pools: un-merging before the pool is the same as weighing the pool by size."""
    dtype, tolerance = precision(family)
    model = build(family, dtype=dtype)
    if model.attn_pool is not None and method in ("tofu", "catis"):
        pytest.skip("an attention pool also sees the fill of evicted patches")
    x = images(model, dtype=dtype)
    with torch.no_grad():
        catis.apply(model, method, r=3)
        dense = model.forward_head(model.forward_features(x))
        torch.testing.assert_close(dense, model(x), rtol=tolerance, atol=tolerance)


def test_get_intermediate_layers():
    model = catis.apply(build("dinov2-reg"), "catis", r=3)
    maps = model.get_intermediate_layers(images(model), n=2, reshape=True, norm=True)
    assert [tuple(one.shape) for one in maps] == [(2, 384, 4, 4)] * 2
    named = model.forward_intermediates(images(model), indices=1, output_dict=True, return_prefix_tokens=True)
    assert sorted(named) == ["image_features", "image_intermediates", "image_intermediates_prefix"]


@pytest.mark.parametrize("family", ALL)
@pytest.mark.parametrize("method", METHODS)
def test_prefix_tokens_survive_and_the_budget_holds(family, method):
    model = catis.apply(build(family), method, r=3)
    seen = catis.trace(model, images(model))
    assert [block.tokens_left for block in seen] == [13, 10, 7, 4]
    for block in seen:
        assert block.size.sum(-1).add((block.provenance < 0).sum(-1)).tolist() == [16, 16]


@pytest.mark.parametrize("family", ["dinov3", "eva02", "rope-mixed", "pe"])
@pytest.mark.parametrize("method", ["pitome", "catis"])
def test_rotary_models_permute_with_their_positions(family, method):
    """Shuffling patches together with their positions changes nothing in the logits.

    At r=0 for all; at r>0 for methods whose choice does not depend on token order (PiToMe orders by energy; CATIS
    here evicts by score).
    """
    dtype, tolerance = precision(family)
    model = build(family, dtype=dtype)
    x = images(model, dtype=dtype)
    order = torch.randperm(16)
    options = {"strategy": "evict"} if method == "catis" else {}
    original, kind = type(model)._pos_embed, type(model)

    class Shuffled(kind):
        def _pos_embed(self, tokens):
            embedded, rope = original(self, tokens)
            prefix = self.num_prefix_tokens
            patches = embedded[:, prefix:][:, order]
            return torch.cat([embedded[:, :prefix], patches], 1), rope.index_select(-2, order)

    for r in (0, 3):
        with torch.no_grad():
            model.__class__ = kind
            expected = catis.apply(model, method, r=r, **options)(x)
            catis.remove(model).__class__ = Shuffled
            catis.apply(model, method, r=r, **options)
            shuffled = find(model).watch(x, lambda record: None)
            catis.remove(model)
        torch.testing.assert_close(shuffled, expected, rtol=tolerance, atol=tolerance)


UNSUPPORTED = {
    "swin_tiny_patch4_window7_224": "no Vision Transformer found",
    "beit_base_patch16_224": "no Vision Transformer found",
    "samvit_base_patch16": "no Vision Transformer found",
    "resnet18": "no Vision Transformer found",
    "vit_relpos_small_patch16_224": "no Vision Transformer found",
    "vit_small_patch16_18x2_224": "ParallelThingsBlock at blocks.0",
    "vit_base_patch16_rpn_224": "ResPostBlock at blocks.0",
    "vit_base_patch16_xp_224": "ParallelScalingBlock at blocks.0",
    "naflexvit_base_patch16_gap": "no Vision Transformer found",
}


@pytest.mark.parametrize("name", sorted(UNSUPPORTED))
def test_other_models_are_refused_with_a_name_and_left_alone(name):
    with torch.device("meta"):
        model = timm.create_model(name)
    kind, keys = type(model), set(vars(model))
    with pytest.raises(catis.UnsupportedModelError, match=UNSUPPORTED[name]) as error:
        catis.apply(model, "tome", r=4)
    assert "Supported: timm VisionTransformer" in str(error.value)
    assert type(model) is kind
    assert set(vars(model)) == keys


def test_every_vision_transformer_in_timm_is_either_right_or_refused():
    """Structure only, on the meta device: no member of the two supported classes is half recognised."""
    names = [name for name in timm.list_models(module="vision_transformer") if "giga" not in name]
    for name in names[:: max(1, len(names) // 40)]:
        with torch.device("meta"):
            model = timm.create_model(name)
        plain = type(model.blocks[0]).__name__ == "Block" and type(model.blocks[0].attn).__name__ == "Attention"
        expected = contextlib.nullcontext() if plain else pytest.raises(catis.UnsupportedModelError, match="found ")
        with expected:
            catis.apply(model, "tome", r=4)


class Overridden(VisionTransformer):
    def forward_features(self, x, attn_mask=None, is_causal=False):
        return super().forward_features(x) * 2


def test_a_subclass_that_changes_the_forward_pass_is_refused():
    model = Overridden(img_size=32, embed_dim=32, depth=2, num_heads=2)
    with pytest.raises(catis.UnsupportedModelError, match=r"Overridden\.forward_features that replaces"):
        catis.apply(model, "tome", r=2)


def test_hybrids_are_right():
    model = timm.create_model("vit_tiny_r_s16_p8_224", img_size=64, num_classes=10).eval()
    x = torch.randn(1, 3, 64, 64)
    expected = model(x)
    assert torch.equal(catis.apply(model, "tome", r=0)(x), expected)
    assert catis.apply(model, "tome", r=1)(x).shape == expected.shape


def test_a_wrapper_around_one_transformer_is_reduced():
    wrapper = torch.nn.Sequential(torch.nn.Identity(), build("vit"))
    catis.apply(wrapper, "tome", r=3)
    assert isinstance(wrapper[1], Reduced)
    with pytest.raises(catis.UnsupportedModelError, match="holds 2 Vision Transformers"):
        catis.apply(torch.nn.ModuleList([build("vit"), build("vit")]), "tome", r=3)
    with pytest.raises(catis.UnsupportedModelError, match=r"expected a torch.nn.Module, got str"):
        catis.apply("vit_tiny_patch16_224", "tome", r=3)


def test_masks_are_refused_not_dropped():
    model = catis.apply(build("vit"), "tome", r=3)
    mask = torch.ones(17, 17, dtype=torch.bool)
    for call in (model, model.forward_features, model.forward_intermediates):
        with pytest.raises(ValueError, match="attn_mask"):
            call(images(model), attn_mask=mask)
    plain = catis.apply(model, "tome", r=0)(images(model), attn_mask=mask)
    assert torch.equal(plain, catis.remove(model)(images(model), attn_mask=mask))


def test_unpooled_output_is_the_full_grid():
    model = timm.create_model("vit_tiny_patch16_224", img_size=64, num_classes=0, global_pool="", depth=2).eval()
    x = torch.randn(2, 3, 64, 64)
    shape = model(x).shape
    assert catis.apply(model, "catis", r=4)(x).shape == shape == (2, 17, 192)


def test_dynamic_image_sizes():
    model = catis.apply(build("dynamic"), "catis", r=3)
    for side in (64, 96):
        assert model(torch.randn(1, 3, side, side)).shape == (1, 10)
        assert model.forward_features(torch.randn(1, 3, side, side)).shape[1] == (side // 16) ** 2 + 1


@torch.no_grad()
def test_the_features_only_wrapper_gives_full_grids():
    model = timm.create_model("vit_tiny_patch16_224", features_only=True, img_size=64, depth=4).eval()
    x = torch.randn(2, 3, 64, 64)
    vanilla = model(x)
    catis.apply(model, "tome", r=0)
    assert all(torch.equal(one, other) for one, other in zip(model(x), vanilla, strict=True))
    catis.apply(model, "tome", r=3)
    reduced = model(x)
    assert [one.shape for one in reduced] == [one.shape for one in vanilla]
    assert not torch.equal(reduced[-1], vanilla[-1])
    first = reduced[-1][0].flatten(1).T
    assert len(first.unique(dim=0)) == 16  # every patch has a vector of its own, though 4 tokens are left


@pytest.mark.parametrize("method", ["tome", "catis"])
@torch.no_grad()
def test_maps_are_own_values_plus_what_the_group_changed_by(method):
    """Told by the blocks one by one: where a patch was before each merge, and where its token is after."""
    model = build("vit", dtype=torch.float64)
    x, prefix = images(model, dtype=torch.float64), 1
    catis.apply(model, method, r=3)
    handle, moves, last = find(model), [], []
    state = [TokenState.start(prefix, 16, 2, track=True)]

    def record(block):
        merged, after = execute(block.plan, block.view.residual, state[0])
        for image in range(2):
            for patch in range(16):
                old, new = state[0].provenance[image, patch], after.provenance[image, patch]
                if new >= 0:
                    way = block.view.residual[image, prefix + old] - merged[image, prefix + new]
                    moves.append((image, patch, way))
        state[0], last[:] = block.state, [block.tokens]

    handle.run(handle.reduction, record, x)
    expected = unmerge(last[0], state[0])[:, prefix:].clone()
    for image, patch, way in moves:
        if state[0].provenance[image, patch] >= 0:
            expected[image, patch] += way
    found = model.forward_intermediates(x, indices=[3], intermediates_only=True, output_fmt="NLC")[0]
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-9)


@pytest.mark.parametrize("name", ["flexivit_small", "vit_small_patch16_rope_224", "vit_small_patch16_rope_ape_224"])
@torch.no_grad()
def test_flexible_and_rotary_vits(name):
    model = timm.create_model(name, img_size=64, depth=4, embed_dim=96, num_heads=3, num_classes=5).eval().double()
    x = torch.randn(2, 3, 64, 64, dtype=torch.float64)
    plain = model(x)
    catis.apply(model, "tome", r=0)
    assert torch.equal(model(x), plain)
    expected = naive.forward(model, x, naive.tome, 3)
    catis.apply(model, "tome", r=3)
    torch.testing.assert_close(model(x), expected, rtol=0, atol=1e-9)


def test_naflex_is_refused_by_name():
    with pytest.raises(UnsupportedModelError, match="NaFlexVit: its blocks carry masks of their own"):
        catis.apply(timm.create_model("naflexvit_base_patch16_gap", depth=1), "tome", r=1)
