"""Vision towers of multimodal models, output="grid": what the language model sees is right, and at r=0 the same."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
import torch
import transformers as hf
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

import catis
from catis import hosts
from catis.core.reduction import Reduction
from tests.hosts import hf_reference as slow
from tests.hosts import tower_reference as reference
from tests.hosts.test_hf_reduced import THETA, slow_probe
from tests.hosts.tower_models import BUILDERS, GRID, IMAGE, QWENS, build, call_of, pixels, qwen_images
from tests.hosts.tower_reference import R

TOLERANCE = 1e-9
METHODS = ["tome", "catis"]


def options(method: str) -> dict[str, Any]:
    return {"r": R, **(THETA if method == "catis" else {})}


@pytest.mark.parametrize("name", BUILDERS)
@torch.no_grad()
def test_r_0_is_the_plain_model_and_generates_the_same(name: str) -> None:
    model, call = build(name), call_of(name)
    plain = model(**call).logits
    said = model.generate(**call, max_new_tokens=4, do_sample=False)
    kinds = [type(module) for module in model.modules()]
    catis.apply(model, "catis", r=0)
    assert torch.equal(model(**call).logits, plain)
    assert torch.equal(model.generate(**call, max_new_tokens=4, do_sample=False), said)
    catis.apply(model, "catis", r=R)
    changed = [kind for kind, module in zip(kinds, model.modules(), strict=True) if type(module) is not kind]
    assert changed == [type(hosts.find(model).vit).__mro__[2]]  # the tower and nothing else
    reduced = model(**call).logits
    assert reduced.shape == plain.shape
    assert not torch.allclose(reduced, plain, atol=1e-3)
    assert model.generate(**call, max_new_tokens=4, do_sample=False).shape[1] > call["input_ids"].shape[1]
    catis.remove(model)
    assert torch.equal(model(**call).logits, plain)


@pytest.mark.parametrize("name", QWENS)
@torch.no_grad()
def test_the_adapter_changes_nothing_until_tokens_go(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model = reference.in_double(build(name), monkeypatch)
    handle = hosts.find(model)
    patches, sizes = qwen_images(dtype=torch.float64)
    plain = handle.vit(patches, grid_thw=sizes, output_hidden_states=True)
    vanilla = handle.facts.bound(Reduction.of("tome", r=0))
    found = handle.run(vanilla, None, patches, grid_thw=sizes, output_hidden_states=True)
    torch.testing.assert_close(found.pooler_output, plain.pooler_output, rtol=0, atol=1e-12)
    for one, other in zip(found.hidden_states, plain.hidden_states, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-12)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("name", QWENS)
@torch.no_grad()
def test_qwen_equals_the_slow_computation(name: str, method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model = reference.in_double(build(name), monkeypatch)
    vit = hosts.find(model).vit
    patches, sizes = qwen_images(dtype=torch.float64)
    merged, deep = reference.qwen_answer(vit, patches, sizes, method)
    catis.apply(model, method, **options(method))
    found = vit(patches, grid_thw=sizes)
    torch.testing.assert_close(found.pooler_output, merged, rtol=0, atol=TOLERANCE)
    assert len(deep) == len(getattr(found, "deepstack_features", ()))
    for one, other in zip(getattr(found, "deepstack_features", ()), deep, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=TOLERANCE)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("name", ["Idefics3", "SmolVLM", "InternVL"])
@torch.no_grad()
def test_other_towers_equal_the_slow_computation(name: str, method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model = reference.in_double(build(name), monkeypatch)
    vit, images = hosts.find(model).vit, pixels(2, 3, 32, 32, dtype=torch.float64)
    if name == "InternVL":
        layers, prefix = [reference.internvl_layer(layer) for layer in vit.encoder.layer], 1
        embedded = vit.embeddings(images)
    else:
        layers, prefix = [reference.siglip_layer(layer) for layer in vit.encoder.layers], 0
        embedded = vit.embeddings(images, torch.ones(2, 4, 4, dtype=torch.bool))
    norm = vit.layernorm if name == "InternVL" else vit.post_layernorm
    expected = []
    for x in embedded:
        tokens = reference.run(layers, x, prefix, method)
        expected.append(norm(torch.cat([tokens.prefix, reference.grid_of(tokens)])))
        if tokens.evicted:  # the mean of what is left, taken after the norm
            grid = slow.full_grid(tokens, norm(torch.stack(tokens.patches)))
            expected[-1] = torch.cat([norm(tokens.prefix), grid])
    catis.apply(model, method, **options(method))
    torch.testing.assert_close(vit(images).last_hidden_state, torch.stack(expected), rtol=0, atol=TOLERANCE)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("name", ["LLaVA-CLIP", "LLaVA-SigLIP", "PaliGemma", "Gemma3"])
@torch.no_grad()
def test_projectors_read_the_full_grid(name: str, method: str) -> None:
    """The towers are checked in test_hf_reduced; here, that each projector gets the grid of the right block."""
    model = build(name).double()
    vit, images = hosts.find(model).vit, pixels(2, 3, 32, 32, dtype=torch.float64)
    clip = name == "LLaVA-CLIP"
    layers = [reference.siglip_layer(layer) for layer in vit.encoder.layers][: 3 if clip else 4]
    embedded = vit.pre_layrnorm(vit.embeddings(images)) if clip else vit.embeddings(images)
    norm = torch.nn.Identity() if name.startswith("LLaVA") else vit.post_layernorm
    grids, evicted = [], 0
    for x in embedded:
        tokens = reference.run(layers, x, int(clip), method)
        grids.append(slow.full_grid(tokens, norm(torch.stack(tokens.patches))))
        evicted += len(tokens.evicted)
    assert (evicted > 0) == (method == "catis")
    inner = model.model
    expected = inner.multi_modal_projector(torch.stack(grids))
    catis.apply(model, method, **options(method))
    features = inner.get_image_features(images).pooler_output
    features = torch.stack(list(features)) if isinstance(features, (list, tuple)) else features
    torch.testing.assert_close(features, expected, rtol=0, atol=TOLERANCE)


@pytest.mark.parametrize("method", METHODS)
@torch.no_grad()
def test_onevision_hands_the_full_grid_of_every_crop_to_its_projector(method: str) -> None:
    model = build("LLaVA-OneVision").double()
    call = call_of("LLaVA-OneVision")
    vit, images = hosts.find(model).vit, call["pixel_values"].double()
    layers = [reference.siglip_layer(layer) for layer in vit.encoder.layers]
    expected = [reference.grid_of(reference.run(layers, x, 0, method)) for x in vit.embeddings(images.flatten(0, 1))]
    catis.apply(model, method, **options(method))
    read: list[Tensor] = []
    hook = model.model.multi_modal_projector.register_forward_pre_hook(lambda module, given: read.append(given[0]))
    model(**{**call, "pixel_values": images})
    hook.remove()
    torch.testing.assert_close(read[0], torch.stack(expected), rtol=0, atol=TOLERANCE)


@pytest.mark.parametrize("name", QWENS)
@torch.no_grad()
def test_an_image_does_not_depend_on_its_neighbours(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model = catis.apply(reference.in_double(build(name), monkeypatch), "catis", r=R)
    vit = hosts.find(model).vit
    patches, sizes = qwen_images(((1, 4, 8), (1, 6, 4), (2, 4, 8)), torch.float64)
    together, start = vit(patches, grid_thw=sizes).pooler_output.split((sizes.prod(1) // 4).tolist()), 0
    for image, size in zip(together, sizes, strict=True):
        alone = vit(patches[start : start + int(size.prod())], grid_thw=size[None]).pooler_output
        start += int(size.prod())
        torch.testing.assert_close(image, alone, rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    ("name", "removed"), [("Qwen2-VL", [3, 3, 3, 3]), ("Qwen3-VL", [3, 3, 3, 3]), ("Qwen2.5-VL", [0, 3, 0, 3])]
)
@torch.no_grad()
def test_the_budget_holds_for_each_image(name: str, removed: list[int]) -> None:
    model = catis.apply(build(name), "tome", r=R)
    handle = hosts.find(model)
    counts: list[int] = []
    for _, height, width in GRID[:2]:
        patches, sizes = qwen_images(((1, height, width),))
        blocks: list[Any] = []
        handle.run(handle.reduction, blocks.append, patches, grid_thw=sizes)
        counts = [height * width, *(block.tokens.shape[1] for block in blocks)]
        assert [before - after for before, after in pairwise(counts)] == removed
    with pytest.raises(ValueError, match=r"images of \[24, 32\] patches cannot be watched in one call"):
        handle.run(handle.reduction, blocks.append, *qwen_images())


def test_blocks_that_attend_in_windows_remove_nothing() -> None:
    model = build("Qwen2.5-VL")
    catis.apply(model, "tome", r=[0, 5, 0, 2])
    assert hosts.find(model).reduction.amounts(4, 32, 0) == [0, 5, 0, 2]
    with pytest.raises(ValueError, match="blocks 0, 2 attend in windows and remove nothing"):
        catis.apply(model, "tome", r=[1, 5, 0, 2])


def test_gmacs_of_the_towers() -> None:
    patches, width, inner = 64, 32, 48
    embed, merger = patches * 96 * width, (patches // 4) * ((4 * width) ** 2 + 4 * width * 24)
    gated = 3 * width * inner
    expected = embed + merger
    left = 64
    for index in range(4):
        pairs = left * left if index in (1, 3) else patches * 16
        after = left - (5 if index in (1, 3) else 0)
        expected += left * 4 * width * width + pairs * 2 * width + after * gated
        left = after
    model = build("Qwen2.5-VL")
    assert catis.gmacs(model, "tome", r=5, input_size=(32, 32)) == expected / 1e9
    assert catis.gmacs(model, r=5, input_size=(32, 32)) < catis.gmacs(model, input_size=(32, 32))


@pytest.mark.parametrize("r", [0, R])
@pytest.mark.parametrize("name", BUILDERS)
def test_gmacs_are_what_torch_counts(name: str, r: int) -> None:
    """To the last multiply-add; products of keys with keys (`bmm`), by which a method matches, are overhead."""
    model = build(name).requires_grad_(False)
    catis.apply(model, "tome", r=r)
    vit = hosts.find(model).vit
    with FlopCounterMode(display=False) as counter:
        if name in QWENS:
            patches, sizes = qwen_images(((1, 8, 8),))
            vit(patches, grid_thw=sizes)
        else:
            vit(pixels(1, 3, 32, 32))
    counted = sum(n for kind, n in counter.get_flop_counts()["Global"].items() if "bmm" not in str(kind)) // 2
    if getattr(vit, "use_head", False):  # its probe reads the tokens that are left in two products
        counted += 2 * (16 - 4 * r) * vit.config.hidden_size
    assert round(1e9 * catis.gmacs(model, input_size=(32, 32))) == counted


@pytest.mark.parametrize("name", BUILDERS)
@torch.no_grad()
def test_as_many_image_tokens_reach_the_language_model_as_the_prompt_has_places(name: str) -> None:
    model, call = catis.apply(build(name), "catis", r=R), call_of(name)
    embeds: list[Tensor] = []
    model.model.get_decoder().register_forward_pre_hook(
        lambda module, args, kwargs: embeds.append(kwargs["inputs_embeds"]), with_kwargs=True
    )
    model(**call)
    words = model.get_input_embeddings()(call["input_ids"])
    assert torch.equal((embeds[0] != words).all(-1), call["input_ids"] == IMAGE)


@pytest.mark.parametrize("name", QWENS)
def test_a_trace_of_packed_patches_is_a_table_and_no_picture(name: str) -> None:
    model = catis.apply(build(name), "catis", r=R)
    patches, sizes = qwen_images(((1, 4, 8), (1, 4, 8)))
    seen = catis.trace(model, patches, grid_thw=sizes)
    removed = [0, 3, 0, 3] if name == "Qwen2.5-VL" else [3, 3, 3, 3]
    assert [block.removed for block in seen] == removed
    assert seen[-1].provenance.shape == (2, 32)
    expected = hosts.find(model).vit(patches, grid_thw=sizes).pooler_output
    torch.testing.assert_close(seen.output.pooler_output, expected, rtol=1e-4, atol=1e-4)
    assert "largest group" in seen._repr_html_()
    with pytest.raises(ValueError, match="only still images"):
        seen.show()
    with pytest.raises(TypeError, match="also needs grid_thw: pass what its processor returned, by name"):
        catis.trace(model, patches)
    with pytest.raises(ValueError, match=r"images of \[24, 32\] patches cannot be watched in one call: pass one size"):
        catis.trace(model, qwen_images()[0], grid_thw=qwen_images()[1])


def naflex() -> tuple[Any, dict[str, Tensor]]:
    torch.manual_seed(3)
    config = hf.Siglip2VisionConfig(
        hidden_size=32, num_hidden_layers=4, num_attention_heads=2, intermediate_size=48, num_patches=16, patch_size=8
    )
    model = hf.Siglip2VisionModel(config).eval()
    with torch.no_grad():
        for weight in model.parameters():
            weight.add_(0.2 * torch.randn_like(weight))
    shapes = torch.tensor([[4, 4], [3, 5], [2, 6]])
    mask = torch.zeros(3, 16, dtype=torch.int32)
    for row, (height, width) in zip(mask, shapes.tolist(), strict=True):
        row[: height * width] = 1
    return model.double(), {
        "pixel_values": pixels(3, 16, 192, dtype=torch.float64),
        "pixel_attention_mask": mask,
        "spatial_shapes": shapes,
    }


@pytest.mark.parametrize("method", METHODS)
@torch.no_grad()
def test_naflex_honours_its_mask(method: str) -> None:
    """Masked patches are never merged with visible ones and never counted: each image is as if it came alone."""
    model, call = naflex()
    layers = [reference.siglip_layer(layer) for layer in model.encoder.layers]
    embedded, mask = model.embeddings(call["pixel_values"], call["spatial_shapes"]), call["pixel_attention_mask"].bool()
    catis.apply(model, method, **options(method))
    found = model(**call)
    for image, visible in enumerate(mask):
        tokens = reference.run(layers, embedded[image][visible], 0, method)
        patches = model.post_layernorm(torch.stack(tokens.patches))
        grid = slow.full_grid(tokens, patches)
        torch.testing.assert_close(found.last_hidden_state[image][visible], grid, rtol=0, atol=TOLERANCE)
        pooled = slow_probe(model.head, tokens, patches)
        torch.testing.assert_close(found.pooler_output[image], pooled, rtol=0, atol=TOLERANCE)
    assert not found.last_hidden_state[~mask].any()
    changed = call["pixel_values"].clone()
    changed[~mask] = 7.0
    assert torch.equal(model(**{**call, "pixel_values": changed}).pooler_output, found.pooler_output)


def test_a_trace_of_naflex_counts_visible_patches_alone() -> None:
    model, call = naflex()
    catis.apply(model, "catis", r=R)
    pair = {key: value[1:2] for key, value in call.items()}
    assert [block.tokens_left for block in catis.trace(model, pair.pop("pixel_values"), **pair)] == [12, 9, 6, 3]
    with pytest.raises(TypeError, match="Siglip2VisionModel also needs pixel_attention_mask and spatial_shapes"):
        catis.trace(model, call["pixel_values"])
    with pytest.raises(ValueError, match=r"images of \[12, 15, 16\] patches cannot be watched in one call"):
        catis.trace(model, call.pop("pixel_values"), **call)


@torch.no_grad()
def test_naflex_at_r_0_and_an_image_with_nothing_visible() -> None:
    model, call = naflex()
    plain = model(**call, output_hidden_states=True)
    catis.apply(model, "tome", r=0)
    assert torch.equal(model(**call).pooler_output, plain.pooler_output)
    catis.apply(model, "tome", r=R)
    states = model(**call, output_hidden_states=True).hidden_states
    assert [state.shape for state in states] == [state.shape for state in plain.hidden_states]
    call["pixel_attention_mask"][1] = 0
    with pytest.raises(ValueError, match="image 1 of the batch has no visible patch"):
        model(**call)


@pytest.mark.parametrize("method", METHODS)
@torch.no_grad()
def test_idefics3_honours_the_mask_of_padded_images(method: str) -> None:
    model = catis.apply(build("Idefics3").double(), method, **options(method))
    vit, images = hosts.find(model).vit, pixels(2, 3, 32, 32, dtype=torch.float64)
    mask = torch.ones(2, 4, 4, dtype=torch.bool)
    mask[1, :, 3:] = False
    layers = [reference.siglip_layer(layer) for layer in vit.encoder.layers]
    embedded, last = vit.embeddings(images, mask), vit(images, mask).last_hidden_state
    for image, visible in enumerate(mask.flatten(1)):
        tokens = reference.run(layers, embedded[image][visible], 0, method)
        grid = slow.full_grid(tokens, vit.post_layernorm(torch.stack(tokens.patches)))
        torch.testing.assert_close(last[image][visible], grid, rtol=0, atol=TOLERANCE)
        assert not last[image][~visible].any()


@torch.no_grad()
def test_half_precision_and_training() -> None:
    for name in QWENS:
        model = catis.apply(build(name), "catis", r=R)
        vit, (patches, sizes) = hosts.find(model).vit, qwen_images()
        vit.to(torch.bfloat16)
        assert vit(patches.to(torch.bfloat16), grid_thw=sizes).pooler_output.isfinite().all()
    with torch.enable_grad():
        model = catis.apply(build("Qwen2.5-VL"), "catis", r=R).train()
        vit = hosts.find(model).vit
        vit(patches, grid_thw=sizes).pooler_output.sum().backward()
        assert all(weight.grad is None or weight.grad.isfinite().all() for weight in vit.parameters())
        assert vit.blocks[0].attn.qkv.weight.grad.abs().sum() > 0
