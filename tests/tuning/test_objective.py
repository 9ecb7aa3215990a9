"""Vanilla's answers that a search compares with: at the model's own input size, or averaged over sizes."""

from dataclasses import replace

import pytest
import timm
import torch

from catis import hosts, zoo
from catis.calibration.answers import distances
from catis.core.reduction import Reduction
from catis.data.preprocessing import Preprocessing
from catis.tuning.objective import Objective
from catis.tuning.sizes import LITTLE, input_sizes, sizes_left
from catis.tuning.teacher import UNSURE, Teacher


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


def test_a_size_at_which_vanilla_is_less_sure_of_clean_images_is_behind(model):
    handle, images = hosts.find(model), torch.rand(9, 3, 96, 96, generator=torch.Generator().manual_seed(0))
    sizes = input_sizes(handle)
    expected = []
    for size in sizes:
        answer = at_size(handle, size, images).softmax(-1)
        expected.append(float(-(answer * answer.log()).sum(-1).mean()))
    expected = [(entropy / expected[0]) ** UNSURE for entropy in expected]
    assert max(abs(value - 1) for value in expected) > 0.01
    for damaged in (False, True):  # corrupted images say nothing of it: at another size vanilla may be surer of noise
        objective = Objective(model, images, Preprocessing(), damaged=damaged, sizes=sizes)
        assert list(objective.handicaps) == sizes
        assert list(objective.handicaps.values()) == pytest.approx(expected, rel=1e-3)


def test_how_far_another_size_moves_answers_to_clean_images(model):
    handle, images = hosts.find(model), torch.rand(9, 3, 96, 96, generator=torch.Generator().manual_seed(0))
    sizes = input_sizes(handle)
    own, *others = (at_size(handle, size, images) for size in sizes)
    expected = [0.0, *(float(distances(own, other, True).mean()) for other in others)]
    assert min(expected[1:]) > 1e-4
    for damaged in (False, True):
        objective = Objective(model, images, Preprocessing(), damaged=damaged, sizes=sizes)
        assert list(objective.moved) == sizes
        assert list(objective.moved.values()) == pytest.approx(expected, rel=1e-3, abs=1e-6)
        for size, apart in objective.moved.items():  # vanilla fed a size is a reduction as any other
            fed = handle.bind(replace(Reduction.none(), input_size=size))
            assert objective.from_own_size(fed) == pytest.approx(apart, rel=1e-3, abs=1e-6)


class Told:
    """An objective that knows how far sizes move answers, and how far any reduction does."""

    def __init__(self, apart):
        self.moved, self.handicaps, self.apart = {None: 0.0, 64: 0.4, 80: 0.2}, {None: 1.0, 64: 1.2, 80: 1.1}, apart

    def from_own_size(self, reduction):
        return self.apart


@pytest.mark.parametrize(
    ("apart", "left"), [(0.5, [None, 64, 80]), (0.09, [None, 80]), (LITTLE * 0.2 - 1e-6, [None]), (0.0, [None])]
)
def test_a_size_that_moves_answers_far_more_than_removing_tokens_is_not_compared(apart, left):
    told = Told(apart)
    assert sizes_left(told, told, Reduction.none()) == {size: told.handicaps[size] for size in left}


def test_features_have_no_sureness():
    """Of a model without logits no size is behind."""
    torch.manual_seed(0)
    handle = hosts.find(timm.create_model("vit_tiny_patch16_224", depth=2, img_size=96, num_classes=0).eval())
    images, sizes = torch.randn(4, 3, 96, 96), input_sizes(handle)
    with torch.inference_mode():
        teacher = Teacher.of(handle, [images], torch.ones(4, dtype=torch.bool), sizes)
    assert len(sizes) > 1
    assert not teacher.are_logits
    assert teacher.handicaps == [1.0] * len(sizes)
    each = torch.stack([at_size(handle, size, images) for size in sizes])
    assert teacher.answers[0].allclose(each.mean(0), atol=1e-6)
