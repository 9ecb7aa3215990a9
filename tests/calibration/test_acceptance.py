"""Which steps of a calibration are kept: by held-out answers, and in the first half of the blocks with patience."""

import pytest
import torch

from catis import hosts, zoo
from catis.calibration.acceptance import HeldOut
from catis.calibration.run import calibrated_weights
from catis.calibration.views import views
from catis.core.reduction import Reduction
from catis.data.preprocessing import Preprocessing
from catis.zoo.dataset import dataset


def test_a_gain_must_exceed_its_standard_error():
    held = HeldOut({False: torch.full((100,), 1.0), True: torch.full((50,), 4.0)})
    noise = torch.linspace(-1, 1, 100)
    assert held.closer({False: 0.8 + 0.1 * noise, True: torch.full((50,), 4.0)})
    small = {False: 0.99 + noise, True: torch.full((50,), 4.0)}
    assert not held.closer(small)
    assert not held.farther(small)


def test_clean_answers_never_pay_for_corrupted_ones():
    held = HeldOut({False: torch.full((100,), 1.0), True: torch.full((50,), 4.0)})
    assert not held.closer({False: torch.full((100,), 1.01), True: torch.full((50,), 1.0)})


def test_further_steps_are_judged_against_what_was_reached():
    held = HeldOut({False: torch.tensor([1.0, 1.0])})
    held.take({False: torch.tensor([0.5, 0.5])})
    assert held.score() == 0.5
    assert held.farther({False: torch.tensor([0.8, 0.8])})


@pytest.fixture(scope="module")
def task():
    model = zoo.load("tiny-6")
    images = torch.cat([batch for batch, _ in dataset("clean", "val", n=64).batches(32)])
    reduction = hosts.find(model).bind(Reduction.of("tome", [36, 28, 20, 15, 11, 0]))
    return model, reduction, list(views(images, Preprocessing((96, 96)), 16))


def test_what_waits_is_taken_back_in_the_middle(task, monkeypatch):
    """Steps that neither help nor harm leave the weights as they were."""
    monkeypatch.setattr(HeldOut, "closer", lambda *_: False)
    monkeypatch.setattr(HeldOut, "farther", lambda *_: False)
    outcome = calibrated_weights(*task)
    assert outcome.weights == {}
    assert outcome.shares == [0.0] * 6


def test_a_later_step_that_helps_keeps_those_that_wait(task, monkeypatch):
    asked = []

    def closer(self, apart):
        asked.append(apart)
        return len(asked) == 3  # blocks 0 and 1 wait, block 2 is the last of the first half

    monkeypatch.setattr(HeldOut, "closer", closer)
    monkeypatch.setattr(HeldOut, "farther", lambda *_: False)
    outcome = calibrated_weights(*task)
    assert outcome.shares == [1.0, 1.0, 1.0, 0.0, 0.0, 0.0]
    assert {int(name.split(".")[1]) for name in outcome.weights} == {0, 1, 2}


def test_a_step_that_harms_is_tried_in_smaller_shares_in_the_first_half_only(task, monkeypatch):
    asked = []
    monkeypatch.setattr(HeldOut, "closer", lambda *_: False)
    monkeypatch.setattr(HeldOut, "farther", lambda self, apart: asked.append(apart) is None)
    outcome = calibrated_weights(*task)
    assert outcome.weights == {}
    assert len(asked) == 3 * 3 + 3
