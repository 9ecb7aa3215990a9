"""Distortion per block, and the replay that takes merges and evictions apart."""

import numpy as np
import pytest
import timm
import torch
from hypothesis import given
from hypothesis import strategies as st

import catis
from catis import hosts
from catis.core.plan import Plan
from catis.diagnostics.distortion import (
    Decisions,
    Distortion,
    Replay,
    channel_amounts,
    cosine_distance,
    summary_feature,
)

IMAGES = torch.randn(3, 3, 64, 64, generator=torch.Generator().manual_seed(0))


@pytest.fixture(scope="module", params=["token", "avg"])
def model(request):
    torch.manual_seed(0)
    options = {"class_token": False, "global_pool": "avg"} if request.param == "avg" else {}
    return timm.create_model("vit_tiny_patch16_224", img_size=64, depth=5, num_classes=7, **options).eval()


def run(model, method, r, recorders):
    handle = hosts.find(model)

    def record(block):
        for one in recorders:
            one(block)

    with torch.inference_mode(), catis.applied(model, method, r=r):
        return handle.watch(IMAGES, record)


def features(model, method, r, *also):
    has_cls, found = model.cls_token is not None, []
    run(model, method, r, [lambda block: found.append(summary_feature(block, has_cls)), *also])
    return found


@given(st.integers(0, 999))
def test_distance_is_one_minus_cosine(seed):
    a, b = torch.randn(2, 4, 6, generator=torch.Generator().manual_seed(seed)).double()
    want = 1 - (a * b).sum(1) / a.norm(dim=1) / b.norm(dim=1)
    torch.testing.assert_close(cosine_distance(a, b), want)
    assert (cosine_distance(a, a) == 0).all()
    torch.testing.assert_close(cosine_distance(a, -a), torch.full((4,), 2.0, dtype=torch.float64))


def test_the_cls_token_cannot_feel_its_own_block_and_a_pool_can(model):
    vanilla, reduced = features(model, "tome", 0), features(model, "tome", 3)
    first = cosine_distance(vanilla[0], reduced[0]).max().item()
    assert (first < 1e-12) == (model.cls_token is not None)
    assert cosine_distance(vanilla[1], reduced[1]).min().item() > 0


@pytest.mark.parametrize("method", ["tome", catis.registry.create_method("catis", tau=0.3)])
def test_a_replay_of_both_channels_is_the_reduced_run(model, method):
    decisions = Decisions()
    reduced = features(model, method, 3, decisions.add)
    again = features(model, Replay(decisions), 0)
    for a, b in zip(reduced, again, strict=True):
        torch.testing.assert_close(a, b, atol=2e-5, rtol=1e-4)


def test_each_channel_alone_does_something_and_something_else_than_both(model):
    decisions = Decisions()
    vanilla = features(model, "tome", 0)
    reduced = features(model, catis.registry.create_method("catis", tau=0.3), 3, decisions.add)
    merge = features(model, Replay(decisions, evict=False), 0)
    evict = features(model, Replay(decisions, merge=False), 0)
    both, only_merge, only_evict = (cosine_distance(vanilla[-1], x[-1]).mean().item() for x in (reduced, merge, evict))
    assert min(both, only_merge, only_evict) > 1e-6
    assert only_merge != pytest.approx(only_evict, rel=1e-3)
    assert both != pytest.approx(only_merge, rel=1e-4)
    assert both != pytest.approx(only_evict, rel=1e-4)


def test_no_channel_is_vanilla(model):
    decisions = Decisions()
    vanilla = features(model, "tome", 0)
    features(model, "catis", 3, decisions.add)
    for a, b in zip(vanilla, features(model, Replay(decisions, merge=False, evict=False), 0), strict=True):
        torch.testing.assert_close(a, b, atol=1e-6, rtol=1e-5)


def test_amounts_are_counted_per_image():
    target = torch.tensor([[0, -1, -1], [0, 0, -1]])
    plan = Plan(torch.zeros(2, 4, dtype=torch.long), torch.zeros(2, 3, dtype=torch.long), target)
    assert channel_amounts(plan) == (1.5, 1.5)
    assert channel_amounts(Plan(plan.keep, plan.removed)) == (0.0, 3.0)
    assert channel_amounts(None) == (0.0, 0.0)


@pytest.mark.parametrize("sizes", [[50], [1] * 50, [7, 20, 23]])
def test_leaving_groups_out_does_not_depend_on_batches(sizes):
    a, b = torch.randn(2, 50, 4, generator=torch.Generator().manual_seed(0)).double()
    metric, start = Distortion(), 0
    for size in sizes:
        metric.update(0, a[start : start + size], b[start : start + size])
        start += size
    distance, group = cosine_distance(a, b).numpy(), np.arange(50) % 20
    want = [distance[group != g].mean() for g in range(20)]
    np.testing.assert_allclose(metric.leave_one_out()[:, 0].numpy(), want)


def test_one_image_has_no_interval():
    metric = Distortion()
    metric.update(0, torch.ones(1, 3), torch.ones(1, 3))
    assert metric.leave_one_out().isnan().all()
