"""Names made from content."""

import pytest
import torch
from torch import nn

from catis.hosts.weights import weights_hash
from catis.runs.record import data_fingerprint, run_name


def test_every_weight_and_buffer_counts():
    model = nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3))
    before = weights_hash(model.state_dict())
    assert weights_hash(model.state_dict()) == before
    model[1].running_mean[0] = 1e-6
    assert weights_hash(model.state_dict()) != before
    assert weights_hash(nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3)).state_dict()) != before


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64, torch.int64, torch.bool])
def test_all_types_can_be_hashed(dtype):
    model = nn.Module()
    model.register_buffer("some", torch.ones(3).to(dtype))
    model.register_buffer("none", torch.ones(0).to(dtype))
    model.register_buffer("one", torch.tensor(1).to(dtype))
    assert len(weights_hash(model.state_dict())) == 32


def test_the_order_of_images_does_not_matter_and_everything_else_does():
    items = [("a", 1, 0), ("b", 2, 1)]
    assert data_fingerprint(items) == data_fingerprint(items[::-1])
    others = [data_fingerprint(items, damage=["fog", 3, 0])]
    others += [data_fingerprint([one, ("b", 2, 1)]) for one in (("c", 1, 0), ("a", 3, 0), ("a", 1, 2))]
    assert len({data_fingerprint(items), *others}) == 5


@pytest.mark.parametrize("stem", [["../../etc/passwd"], ["a/b:c", "r=[1, 2]"], [".hidden"], ["x" * 500]])
def test_names_are_safe_as_files(stem):
    name = run_name(stem, {})
    assert "/" not in name
    assert not name.startswith(".")
    assert len(name) < 150
