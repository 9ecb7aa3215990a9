"""Vanilla's answers that a search compares with: at the model's own input size, or averaged over sizes."""

from dataclasses import replace

import pytest
import timm
import torch

from catis import hosts, zoo
from catis.calibration.answers import distances
from catis.core.reduction import Reduction
from catis.data.preprocessing import Preprocessing
from catis.tuning.at_budget import input_sizes
from catis.tuning.objective import Objective


@pytest.fixture(scope="module")
def model():
    return zoo.load("tiny-6")


def at_size(handle, size, images):
    """Logits of the vanilla model fed images of this size."""
    with handle.installed(handle.bind(replace(Reduction.none(), input_size=size))), torch.inference_mode():
        return handle.model(images)


def test_sizes_that_a_model_can_be_fed(model):
    own, *smaller = input_sizes(hosts.find(model))
    assert own is None
    assert smaller == sorted(smaller)
    assert all(size < 96 and size % 8 == 0 for size in smaller)
    rotary = timm.create_model("eva02_tiny_patch14_224", depth=2, img_size=56)
    assert input_sizes(hosts.find(rotary)) == [None]


def test_an_answer_is_the_mean_over_sizes(model):
    handle, images = hosts.find(model), torch.randn(8, 3, 96, 96, generator=torch.Generator().manual_seed(0))
    sizes = input_sizes(handle)
    assert len(sizes) == 3
    objective = Objective(model, images, Preprocessing(), damaged=False, sizes=sizes)
    answers = [at_size(handle, size, images).softmax(-1) for size in sizes]
    expected = float(distances(torch.stack(answers).mean(0).log(), answers[0].log(), True).mean())
    assert expected > 1e-4
    assert objective.distance(Reduction.none()) == pytest.approx(expected, rel=1e-4)
    assert Objective(model, images, Preprocessing(), damaged=False).distance(Reduction.none()) == 0
