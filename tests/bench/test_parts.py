"""What is timed apart: the products' shapes, the parts of a pass, memory, reading."""

import numpy as np
import pytest
import timm
import torch
from PIL import Image

import catis
from catis import hosts
from catis.bench import Precision, Roofline
from catis.bench.phases import attention_is_fused, time_phases
from catis.bench.roofline import token_flow
from catis.bench.run import seconds_per_image
from catis.bench.timing import peak_bytes
from catis.bench.variants import build_variants, default_amount
from catis.data.images import NoImagesError
from catis.errors import is_out_of_memory
from catis.inference import shared_copy
from catis.zoo import load

CPU = torch.device("cpu")
MODELS = ["vit_tiny_patch16_224", "deit_tiny_distilled_patch16_224", "vit_small_patch16_dinov3"]


def built(name):
    handle = hosts.find(timm.create_model(name, depth=3))
    return handle.vit, handle.facts, handle.cost()


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("r", [0, 13, (8, -1.0)])
@pytest.mark.parametrize("head_only", [False, True])
def test_the_products_are_those_that_gmacs_counts(name, r, head_only):
    model, facts, cost = built(name)
    if head_only and model.global_pool != "token":
        pytest.skip("its head reads every token")
    catis.apply(model, "tome", r=r, head_only=head_only)
    roofline = Roofline(cost)
    found = roofline.macs(token_flow(cost, facts.num_prefix, hosts.find(model).reduction))
    assert found + cost.head_weights == round(1e9 * catis.gmacs(model))


def test_the_products_have_the_models_shapes():
    _, facts, cost = built("vit_tiny_patch16_224")
    roofline = Roofline(cost)
    shapes = [tuple(tuple(one.shape) for one in work) for work in roofline._operands(token_flow(cost, 1, None), 2)]
    heads = (2, 3, 197, 64)
    block = [((394, 192), (576, 192)), ((394, 192), (192, 192)), (heads,) * 3]
    block += [((394, 192), (768, 192)), ((394, 768), (192, 768))]
    assert shapes == [((392, 768), (192, 768)), *block * 3]
    roofline.step(token_flow(cost, facts.num_prefix, None), 2)()


def test_flow_counts_prefix_and_contract():
    model, facts, cost = built("vit_tiny_patch16_224")
    catis.apply(model, "tome", r=90)
    assert token_flow(cost, facts.num_prefix, hosts.find(model).reduction) == (
        (197, 197, 107),
        (107, 107, 54),
        (54, 54, 28),
    )
    catis.apply(model, "tome", r=90, head_only=True)
    assert token_flow(cost, facts.num_prefix, hosts.find(model).reduction)[-1] == (54, 1, 1)


def test_default_amounts():
    assert default_amount(196, 12) == 13
    assert default_amount(4, 12) == 1


# variants


def test_variants_share_weights_and_leave_the_model_alone():
    model = load("tiny-6")
    table = build_variants(model, ("tome", "mctf"), (5,))
    assert type(model).__name__ == "VisionTransformer"
    first = next(model.parameters()).data_ptr()
    assert {next(net.parameters()).data_ptr() for net in table.values()} == {first}
    images = torch.randn(1, 3, 96, 96)
    with torch.no_grad():
        vanilla, tome, _ = (net(images) for net in table.values())
        assert torch.equal(vanilla, model(images))
        assert torch.equal(tome, catis.apply(load("tiny-6"), "tome", r=5)(images))


def test_a_shared_copy_can_be_reduced_alone():
    model = load("tiny-6")
    catis.apply(shared_copy(model), "tome", r=5)
    assert hosts.find(model).reduction is None


# parts


@pytest.mark.parametrize("method", catis.list_methods())
def test_parts_of_every_method(method):
    model = catis.apply(load("tiny-6"), method, r=9)
    images = torch.randn(2, 3, 96, 96)
    with torch.no_grad():
        before = model(images)
        found = time_phases(model, images, Precision(), repeats=1, threads=1)
        assert torch.equal(model(images), before)
    assert found.choose > 0
    assert found.merge > 0
    assert (found.attention_map > 0) is (method == "mctf")
    assert found.unfused == 0


def test_rotary_models_have_parts():
    model = catis.apply(timm.create_model("vit_small_patch16_dinov3", depth=3, img_size=64).eval(), "catis", r=3)
    assert time_phases(model, torch.randn(1, 3, 64, 64), Precision(), repeats=1, threads=1).choose > 0


def test_parts_of_a_method_that_runs_blocks_its_own_way_are_not_guessed():
    model = catis.apply(load("tiny-6"), "mctf", r=9, reference=True)
    assert time_phases(model, torch.randn(1, 3, 96, 96), Precision(), repeats=1, threads=1) is None


def test_unfused_attention_is_seen():
    model = load("tiny-6")
    images = torch.randn(1, 3, 96, 96)
    assert attention_is_fused(model, images, Precision())
    for block in model.blocks:
        block.attn.fused_attn = False
    assert not attention_is_fused(model, images, Precision())
    assert not attention_is_fused(catis.apply(model, "tome", r=3), images, Precision())


# memory and reading


def test_peak_memory_is_what_is_held_at_once():
    def step():
        first = torch.ones(1000)
        second = first + 1
        del first
        return second + torch.ones(1000)

    assert peak_bytes(step, CPU) == 3 * 4000
    assert peak_bytes(lambda: [torch.ones(1000).sum() for _ in range(5)], CPU) < 2 * 4000


def test_peak_memory_leaves_the_environment_alone(monkeypatch):
    monkeypatch.setenv("KINETO_LOG_LEVEL", "3")
    peak_bytes(lambda: torch.ones(1), CPU)
    import os

    assert os.environ["KINETO_LOG_LEVEL"] == "3"


def test_what_running_out_of_memory_is():
    with pytest.raises(RuntimeError) as caught:
        torch.empty(10**16)
    assert is_out_of_memory(caught.value)
    assert is_out_of_memory(torch.OutOfMemoryError("CUDA out of memory."))
    assert not is_out_of_memory(RuntimeError("shapes do not match"))


def test_reading(tmp_path):
    model = load("tiny-6")
    (tmp_path / "broken.png").write_bytes(b"no image")
    with pytest.raises(NoImagesError, match="none of the 1 images"):
        seconds_per_image(tmp_path, model, workers=1, repeats=1)
    Image.fromarray(np.zeros((120, 150, 3), np.uint8)).save(tmp_path / "one.png")
    assert seconds_per_image(tmp_path, model, workers=2, repeats=1) > 0
