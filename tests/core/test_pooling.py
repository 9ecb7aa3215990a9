"""Weights inside a group from the CLS token's row: what is computed, and where it is refused."""

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

import catis
from catis import hosts
from catis.core.execute import execute
from catis.registry import create_method

from ..hosts import families


@pytest.mark.parametrize("method", ["tome", "catis"])
def test_groups_are_means_weighed_by_attention_and_size(method):
    model = families.build("vit", dtype=torch.float64)
    seen = []
    catis.apply(model, method, r=4, pooling="attention")
    hosts.find(model).watch(families.images(model, dtype=torch.float64), seen.append)
    view, plan = seen[1].view, seen[1].plan
    weight = view.cls_attention() * view.size
    torch.testing.assert_close(plan.weight, weight)
    from catis.core.state import TokenState

    moved, _ = execute(plan, view.residual, TokenState(1, size=view.size))
    for image in range(2):
        for place, kept in enumerate(plan.keep[image]):
            group = torch.cat([kept[None], plan.removed[image][plan.target[image] == place]])
            share = weight[image][group] / weight[image][group].sum()
            expected = (share[:, None] * view.patch_residual()[image][group]).sum(0)
            torch.testing.assert_close(moved[image, 1 + place], expected)


@pytest.mark.parametrize("method", ["tome", "catis"])
def test_it_is_an_option_like_the_others(method):
    model = families.build("vit").requires_grad_(False)
    x = families.images(model)
    by_size = catis.apply(model, method, r=4)(x)
    assert torch.equal(catis.apply(model, method, r=4, pooling="size")(x), by_size)
    assert not torch.equal(catis.apply(model, method, r=4, pooling="attention")(x), by_size)
    with FlopCounterMode(display=False) as counter:
        model(x[:1])
    assert catis.gmacs(model, overhead=True) == pytest.approx(counter.get_total_flops() / 2e9, rel=0.01)
    with pytest.raises(ValueError, match="pooling='max': expected one of"):
        create_method(method, pooling="max")


@pytest.mark.parametrize("family", ["siglip-gap", "reg4-gap"])
def test_a_model_without_cls_is_refused(family):
    with pytest.raises(ValueError, match="needs a CLS token; this model has none"):
        catis.apply(families.build(family), "tome", r=2, pooling="attention")


def test_gradients_reach_the_weights():
    model = families.build("vit", dtype=torch.float64)
    x = families.images(model, batch=1, dtype=torch.float64).requires_grad_()
    catis.apply(model, "tome", r=4, pooling="attention")
    gradient = torch.autograd.grad(model(x).square().sum(), x)[0]
    assert gradient.isfinite().all()
    step = torch.randn(x.shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64) * 1e-6
    with torch.no_grad():
        change = model(x + step).square().sum() - model(x - step).square().sum()
    torch.testing.assert_close((2 * gradient * step).sum(), change, rtol=1e-4, atol=1e-12)
