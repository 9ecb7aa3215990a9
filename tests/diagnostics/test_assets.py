"""On real weights and images, where they are present: the shape of what the paper measured, and the cost limit."""

import importlib.util
from pathlib import Path

import pytest
import torch

from catis.data.preprocessing import Preprocessing
from catis.health.check import diagnose

ASSETS = Path(__file__).parents[3] / "shared" / "assets"
pytestmark = [pytest.mark.assets, pytest.mark.skipif(not ASSETS.exists(), reason=f"no {ASSETS}")]


@pytest.fixture(scope="module")
def found():
    spec = importlib.util.spec_from_file_location("assets_load", ASSETS / "load.py")
    load = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(load)
    torch.set_num_threads(1)
    name = "deit_tiny_patch16_224"
    mean, std, crop_pct = load.PREPROCESS[name]
    prepared = Preprocessing(crop_pct=crop_pct, mean=mean, std=std)
    return diagnose(load.model(name), ASSETS / "images" / "imagenet1000", r=13, limit=24, preprocessing=prepared)


def test_pairwise_ranking_falls_with_depth_on_deit(found):
    bands = found.bands()["pairwise"]
    assert bands["shallow"] > bands["middle"] > bands["deep"]
    assert bands["deep"] < 0.35  # the paper: 0.27 on DeiT-3-B


def test_vanilla_rho_off_is_below_the_papers_ceiling(found):
    assert max(e.mean for e in found.vanilla["rho_off"]) < 0.25


def test_distortion_grows_faster_than_straight(found):
    assert found.amplifier.growth == "super-linear"
    assert found.amplifier.r_squared > 0.9 > found.amplifier.linear_r_squared
