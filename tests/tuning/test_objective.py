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
from catis.tuning.teacher import SURENESS, vanilla_answers


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


def test_an_answer_is_the_mean_over_sizes_by_how_sure_vanilla_is(model):
    handle, images = hosts.find(model), torch.randn(8, 3, 96, 96, generator=torch.Generator().manual_seed(0))
    sizes = input_sizes(handle)
    assert len(sizes) == 3
    objective = Objective(model, images, Preprocessing(), damaged=False, sizes=sizes)
    answers = torch.stack([at_size(handle, size, images).softmax(-1) for size in sizes])
    entropy = torch.tensor([float(-(answer * answer.log()).sum(-1).mean()) for answer in answers])
    weights = entropy**-SURENESS / (entropy**-SURENESS).sum()
    assert weights.max() > weights.min() + 0.01
    mean = (weights[:, None, None] * answers).sum(0)
    expected = float(distances(mean.log(), answers[0].log(), True).mean())
    assert expected > 1e-4
    assert objective.distance(Reduction.none()) == pytest.approx(expected, rel=1e-4)
    assert Objective(model, images, Preprocessing(), damaged=False).distance(Reduction.none()) == 0


def test_clean_images_say_how_sure_vanilla_is(model):
    """Corrupted ones are compared too, but at another size vanilla may be surer of noise alone."""
    handle, images = hosts.find(model), torch.rand(8, 3, 96, 96, generator=torch.Generator().manual_seed(0))
    corrupted, sizes = torch.arange(8) % 2 == 1, input_sizes(handle)
    with torch.inference_mode():
        before, _ = vanilla_answers(handle, [images], corrupted, sizes)
        changed = torch.where(corrupted[:, None, None, None], 1 - images, images)
        after, _ = vanilla_answers(handle, [changed], corrupted, sizes)
    assert before[0][~corrupted].equal(after[0][~corrupted])
    assert not before[0][corrupted].equal(after[0][corrupted])


def test_features_have_no_sureness():
    """Of a model without logits all sizes count alike."""
    torch.manual_seed(0)
    handle = hosts.find(timm.create_model("vit_tiny_patch16_224", depth=2, img_size=96, num_classes=0).eval())
    images, sizes = torch.randn(4, 3, 96, 96), input_sizes(handle)
    with torch.inference_mode():
        (mean,), are_logits = vanilla_answers(handle, [images], torch.zeros(4, dtype=torch.bool), sizes)
        each = torch.stack([at_size(handle, size, images) for size in sizes])
    assert len(sizes) > 1
    assert not are_logits
    assert mean.allclose(each.mean(0), atol=1e-6)
