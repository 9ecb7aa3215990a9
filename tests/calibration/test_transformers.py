"""`catis.calibrate` on models of transformers: closer to vanilla on images held out, undone bit for bit."""

import copy

import pytest
import torch

import catis
from catis import hosts
from catis.calibration.run import calibrated_weights
from catis.calibration.views import views
from tests.hosts.hf_models import build, inputs_for

FAMILIES = [
    "ViTForImageClassification",
    "DeiTForImageClassification",
    "DeiTForImageClassificationWithTeacher",
    "Dinov2Model",
    "Dinov2ForImageClassification",
    "Dinov2WithRegistersModel",
    "CLIPVisionModel",
    "SiglipVisionModel",
]


@pytest.fixture(scope="module")
def pictures():
    shape = inputs_for(build(FAMILIES[0]))["pixel_values"].shape
    return torch.randn(160, *shape[1:], generator=torch.Generator().manual_seed(1)).cumsum(-1).div(4)


@pytest.mark.parametrize("name", FAMILIES)
def test_families_of_transformers_come_closer(name, pictures):
    model = build(name)
    reduction = hosts.find(catis.apply(copy.deepcopy(model), "tome", r=4)).reduction
    outcome = calibrated_weights(model, reduction, views(pictures, hosts.find(model).preprocessing(), 32))
    assert outcome.weights
    assert outcome.after < 1


@pytest.mark.parametrize("name", FAMILIES)
def test_remove_gives_the_weights_of_transformers_back(name, pictures):
    model = build(name)
    before = copy.deepcopy(model.state_dict())
    catis.calibrate(catis.apply(model, "tome", r=4), pictures)
    catis.remove(model)
    assert all(torch.equal(value, before[key]) for key, value in model.state_dict().items())
