"""Weights from a file: own classes, training checkpoints with their average, other sizes; pickles that do more."""

import contextlib
from argparse import Namespace

import pytest
import timm
import torch
from PIL import Image
from safetensors.torch import save_file
from typer.testing import CliRunner

from catis.cli import app
from catis.models import load_model

SMALL = {"img_size": 32, "num_classes": 7}


@pytest.fixture
def tuned():
    return timm.create_model("test_vit", **SMALL).eval()


def test_the_number_of_classes_is_the_files(tuned, tmp_path):
    save_file(tuned.state_dict(), tmp_path / "tuned.safetensors")
    model = load_model("test_vit", tmp_path / "tuned.safetensors", img_size=32)
    x = torch.randn(2, 3, 32, 32)
    assert torch.equal(model(x), tuned(x))
    with pytest.raises(ValueError, match="does not fit test_vit"):
        load_model("test_vit", tmp_path / "tuned.safetensors", img_size=32, num_classes=9)


@pytest.mark.parametrize("name", ["deit_tiny_distilled_patch16_224", "eva02_tiny_patch14_224", "test_vit4"])
def test_so_it_is_in_every_class_of_timm_that_has_a_head(name, tmp_path):
    model = timm.create_model(name, num_classes=5, depth=2)
    save_file(model.state_dict(), tmp_path / "tuned.safetensors")
    assert load_model(name, tmp_path / "tuned.safetensors", depth=2).num_classes == 5


def test_settings_of_its_own_are_given_as_in_timm(tmp_path):
    model = timm.create_model("test_vit", global_pool="avg", **SMALL).eval()
    torch.save({"state_dict": model.state_dict()}, tmp_path / "mine.pth.tar")
    Image.new("RGB", (40, 40), (200, 30, 30)).save(tmp_path / "photo.png")
    words = ["show", "photo.png", "--model", "test_vit", "--checkpoint", "mine.pth.tar", "--img-size", "32", "-r", "1"]
    with contextlib.chdir(tmp_path):
        without, given = (CliRunner().invoke(app, [*words, *more]) for more in ([], ["--model-kwargs=global_pool=avg"]))
    assert (without.exit_code, given.exit_code) == (2, 0), given.output
    assert "does not fit test_vit" in without.output


def test_a_zoo_model_with_a_new_head(tmp_path):
    model = load_model("tiny-6")
    model.reset_classifier(3)
    torch.save(model.state_dict(), tmp_path / "new.pth")
    assert load_model("tiny-6", tmp_path / "new.pth").num_classes == 3


def test_a_training_checkpoint_of_timm_and_its_average(tuned, tmp_path):
    plain = {f"module.{name}": torch.zeros_like(value) for name, value in tuned.state_dict().items()}
    content = {"epoch": 3, "arch": "test_vit", "args": Namespace(lr=0.1), "state_dict": plain}
    torch.save(content, tmp_path / "last.pth.tar")
    assert load_model("test_vit", tmp_path / "last.pth.tar", img_size=32).head.weight.abs().max() == 0
    torch.save({**content, "state_dict_ema": tuned.state_dict()}, tmp_path / "ema.pth.tar")
    assert torch.equal(load_model("test_vit", tmp_path / "ema.pth.tar", img_size=32).head.weight, tuned.head.weight)


def test_positions_are_resampled_for_a_size_that_is_asked_for(tuned, tmp_path):
    torch.save(tuned.state_dict(), tmp_path / "tuned.pth")
    model = load_model("test_vit", tmp_path / "tuned.pth", img_size=64)
    assert model(torch.randn(1, 3, 64, 64)).shape == (1, 7)
    with pytest.raises(ValueError, match="positions of 2 x 2 patches, the model 10 x 10: pass --img-size 32"):
        load_model("test_vit", tmp_path / "tuned.pth")


class Payload:
    """Would print when unpickled."""

    def __reduce__(self):
        return print, ("unpickled",)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"state_dict": {}, "extra": Payload()}, "unpickling that can run code"),
        ([1, 2], "holds no weights"),
        ({"epoch": 3}, "holds no weights"),
    ],
)
def test_what_is_no_checkpoint_is_refused_with_a_sentence(content, message, tmp_path, capsys):
    torch.save(content, tmp_path / "bad.pth")
    with pytest.raises(ValueError, match=message):
        load_model("test_vit", tmp_path / "bad.pth")
    assert "unpickled" not in capsys.readouterr().out


def test_a_file_that_is_missing_cut_short_or_of_another_kind(tmp_path):
    (tmp_path / "cut.pth").write_bytes(b"PK")
    for name, message in (("no.pth", "no such file"), ("x.ckpt", "expected a .safetensors"), ("cut.pth", "cannot be")):
        with pytest.raises(ValueError, match=message):
            load_model("test_vit", tmp_path / name)
