"""One value for a reduction: its text and JSON, what it refuses, and that everything takes it."""

import json

import pytest
import timm
import torch

import catis
from catis.core.reduction import Reduction
from catis.core.schedule import Schedule


@pytest.mark.parametrize("r", [13, 0.1, [16, 12, 8], (8, -1.0)])
def test_every_amount_survives_text_and_json(r):
    reduction = Reduction.of("catis", r, tau=0.8, prop_attn=False)
    assert Schedule.from_text(str(reduction.schedule)) == reduction.schedule
    assert Reduction.from_json(json.loads(json.dumps(reduction.to_json()))) == reduction


def test_options_that_are_tuples_and_methods_that_decide_the_amounts_survive_json():
    for reduction in (
        Reduction.of("mctf", 8, reference=True, blocks=(1, 2)),
        Reduction.of("pitome", reference=True, ratio=0.9),
        Reduction.none(),
    ):
        assert Reduction.from_json(json.loads(json.dumps(reduction.to_json()))) == reduction


def test_binding_finds_one_spelling_and_checks_the_depth():
    spellings = [8, [8] * 4, (8, 0.0)]
    assert {Reduction.of("tome", r).bound(4, 1) for r in spellings} == {Reduction.of("tome", 8)}
    falling = Reduction.of("tome", (8, -1.0)).bound(3, 1)
    assert falling == Reduction.of("tome", [16, 8, 0]) == falling.bound(3, 1)
    with pytest.raises(ValueError, match="2 entries for 3 blocks"):
        Reduction.of("tome", [8, 8]).bound(3, 1)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"r": 8}, "method is needed"),
        ({"method": "tome", "r": 8, "budget": 1}, "budget=1 beside r"),
        ({"method": "tome", "r": 8, "tokens": 1}, "unknown keys tokens"),
        ({"method": "tome"}, "say how many"),
        ({"method": "catis", "r": 8, "options": {"tau": "high"}}, "expected a number"),
        ({"method": "vanilla", "r": 8, "options": {"tau": 1}}, "expected one of"),
    ],
)
def test_what_is_refused(content, message):
    with pytest.raises(ValueError, match=message):
        Reduction.from_json(content)


def test_apply_takes_it_alone():
    torch.manual_seed(0)
    model, images = timm.create_model("test_vit").eval(), torch.randn(2, 3, 160, 160)
    vanilla = model(images)
    by_name = catis.apply(model, "tome", r=8)(images)
    assert torch.equal(catis.apply(model, Reduction.of("tome", 8))(images), by_name)
    with catis.applied(model, Reduction.none()):
        assert torch.equal(model(images), vanilla)
    assert torch.equal(model(images), by_name)
    assert catis.gmacs(catis.remove(model), Reduction.of("tome", 8)) < catis.gmacs(model)
    with pytest.raises(ValueError, match="a Reduction was given together with r"):
        catis.apply(model, Reduction.none(), r=8)
