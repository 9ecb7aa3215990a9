"""MACs: the paper's column, FlopCounterMode on reduced models, and no weights needed."""

import pytest
import timm
import torch
from torch.utils.flop_counter import FlopCounterMode

import catis

PAPER = [  # SPEC 8: model, r, GMACs
    ("vit_small_patch16_224", 0, 4.60),
    ("vit_small_patch16_224", 13, 2.70),
    ("vit_small_patch16_224", 23, 1.65),
    ("deit3_small_patch16_224", 23, 1.65),
    ("vit_base_patch16_224", 0, 17.56),
    ("vit_base_patch16_224", 13, 10.37),
    ("vit_base_patch16_224", 23, 6.28),
    ("vit_large_patch16_224", 0, 61.55),
    ("vit_large_patch16_224", 11, 22.73),
]


@pytest.mark.parametrize(("name", "r", "expected"), PAPER)
def test_paper_column(name, r, expected):
    with torch.device("meta"):
        model = timm.create_model(name)
    assert catis.gmacs(model, r=r) == pytest.approx(expected, abs=0.006)


def test_dinov3_7b_on_the_meta_device():
    with torch.device("meta"):
        model = timm.create_model("vit_7b_patch16_dinov3", num_classes=1000, img_size=224, dynamic_img_size=False)
    assert catis.gmacs(model) == pytest.approx(1363, rel=0.001)
    assert catis.gmacs(model, r=4) == pytest.approx(815.5, rel=0.001)
    assert all(parameter.is_meta for parameter in model.parameters())


def test_budget_methods_readme():
    """BASELINES 4.3: published MACs of other schedules."""
    with torch.device("meta"):
        model = timm.create_model("deit_small_patch16_224")
    assert catis.gmacs(model, r=(8, -1.0)) == pytest.approx(3.06, abs=0.01)
    assert catis.gmacs(model, "pitome", reference=True, ratio=0.9) == pytest.approx(2.59, abs=0.01)


CASES = [("vit_tiny_patch16_224", r) for r in (13, 0.1, (8, -1.0), 150)]
OTHERS = ("vit_base_patch16_siglip_224", "vit_small_patch16_dinov3", "vit_wee_patch16_reg1_gap_256")
CASES += [(name, 13) for name in OTHERS]


@pytest.mark.parametrize(("name", "r"), CASES, ids=str)
@pytest.mark.parametrize("method", ["tome", "tofu", "pitome", "mctf", "catis", "cluster"])
def test_flop_counter_agrees(name, r, method):
    model = catis.apply(timm.create_model(name, depth=4).eval().requires_grad_(False), method, r=r)
    images = torch.zeros(1, 3, *model.patch_embed.img_size)
    with FlopCounterMode(display=False) as counter:
        model(images)
    counted = counter.get_total_flops() / 2e9
    assert catis.gmacs(model, overhead=True) == pytest.approx(counted, rel=0.005)


def test_overhead_is_small_but_said():
    model = catis.apply(timm.create_model("vit_base_patch16_224"), "catis", r=13)
    plain, full = catis.gmacs(model), catis.gmacs(model, overhead=True)
    assert plain < full < 1.01 * plain


def test_removing_tokens_never_costs():
    with torch.device("meta"):
        model = timm.create_model("vit_tiny_patch16_224")
    counts = [catis.gmacs(model, r=r) for r in range(30)]
    assert counts == sorted(counts, reverse=True)
