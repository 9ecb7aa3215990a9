"""Images, budgets and models that nothing can be tuned with: one sentence, the model as it was, nothing written."""

import re
import shutil

import pytest
import timm
import torch
from PIL import Image
from safetensors.torch import save_file
from typer.testing import CliRunner

import catis
from catis import hosts, zoo
from catis.cli import app
from catis.errors import CatisError
from tests.hosts.hf_models import build


def bits(model):
    return {name: weight.clone() for name, weight in model.state_dict().items()}


def without_images(folder):
    pass


def with_one(folder):
    Image.new("RGB", (96, 96)).save(folder / "a.png")


def unreadable(folder):
    for name in ("a.png", "b.jpg"):
        (folder / name).write_bytes(b"no image")


@pytest.mark.parametrize(
    ("fill", "said"),
    [
        (without_images, "no images"),
        (with_one, "1 images: expected at least 8"),
        (unreadable, "none of 2 images in .* could be read; the first: a.png: "),
    ],
)
@pytest.mark.parametrize("wish", [["--budget", "0.5"], ["--max-drop", "5"]])
def test_folders_of_images(fill, said, wish, tmp_path):
    folder = tmp_path / "photos"
    folder.mkdir()
    fill(folder)
    result = CliRunner().invoke(app, ["tune", "tiny-6", "--data", str(folder), *wish, "-o", str(tmp_path / "out")])
    assert result.exit_code == 2, result.output
    assert re.search(said, " ".join(result.output.split())), result.output
    assert not (tmp_path / "out").exists()


def test_images_that_cannot_be_read_are_left_out_and_told(folder_of_photos, tmp_path, quick):
    folder = tmp_path / "photos"
    shutil.copytree(folder_of_photos, folder)
    (folder / "broken.png").write_bytes(b"no image")
    call = [
        "tune",
        "tiny-6",
        "--data",
        str(folder),
        "--budget",
        "0.6",
        "--minutes",
        "0.25",
        "-o",
        str(tmp_path / "out"),
    ]
    result = CliRunner().invoke(app, [*call, *(f"--without={lever}" for lever in quick["without"])])
    assert result.exit_code == 0, result.output
    assert "left out 1 of 25 images in" in " ".join(result.output.split())
    assert "broken.png" in (tmp_path / "out" / "tune.json").read_text()
    model = catis.apply(zoo.load("tiny-6"), "tome", r=9)
    with pytest.warns(UserWarning, match="left out 1 of 25 images"):
        catis.calibrate(model, folder)


@pytest.mark.parametrize(
    ("wish", "said"),
    [
        (["--budget", "0.01"], "budget=0.01: nobody can reach it"),
        (["--budget", "0.5", "--budget", "0.01"], "budget=0.01: nobody can reach it"),
        (["--budget", "0.5", "--without", "magic"], "without=magic: expected any of schedule"),
        (["--budget", "0.5", "--controls", "magic"], "controls=magic: expected any of calibrated, diagnostic"),
        (["--budget", "0.5", "-m", "cluster,topk"], "methods=topk: expected any of cluster, catis"),
        (["--budget", "1.5"], "between 0 and 1"),
    ],
)
def test_wishes_that_nobody_can_fulfil(wish, said, folder_of_photos, tmp_path):
    call = ["tune", "tiny-6", "--data", str(folder_of_photos), "-o", str(tmp_path / "out"), *wish]
    result = CliRunner().invoke(app, call)
    assert result.exit_code == 2, result.output
    assert said in " ".join(result.output.split())
    assert not (tmp_path / "out").exists()


def test_a_checkpoint_whose_logits_are_not_finite(folder_of_photos, tmp_path):
    weights = {name: value.clone().contiguous() for name, value in zoo.load("tiny-6").state_dict().items()}
    weights["head.bias"][:] = float("nan")
    save_file(weights, tmp_path / "nan.safetensors")
    for wish in (["--budget", "0.5"], ["--max-drop", "60"]):
        call = ["tune", "tiny-6", "--checkpoint", str(tmp_path / "nan.safetensors"), "--data", str(folder_of_photos)]
        result = CliRunner().invoke(app, [*call, *wish, "-o", str(tmp_path / "out")])
        assert result.exit_code == 2, result.output
        assert "not finite" in result.output
        assert not (tmp_path / "out").exists()


def not_finite():
    model = zoo.load("tiny-6")
    torch.nn.init.constant_(model.head.bias, float("nan"))
    return model


@pytest.mark.parametrize(
    ("make", "shape", "arguments", "said"),
    [
        (not_finite, (24, 3, 96, 96), {"budget": 0.5}, "logits of VisionTransformer are not finite"),
        (lambda: zoo.load("tiny-6"), (19, 3, 96, 96), {"budget": 0.5}, "19 images: tuning needs at least 20"),
        (lambda: zoo.load("tiny-6"), (24, 3, 96, 96), {"budget": [0.5, 0.02]}, "budget=0.02: nobody can reach it"),
        (
            lambda: zoo.load("tiny-6"),
            (24, 3, 96, 96),
            {"budget": 0.5, "schedule": "flat"},
            "schedule=flat: expected any",
        ),
        (lambda: zoo.load("tiny-6"), (24, 96), {"budget": 0.5}, r"expected prepared float images \(n, 3, H, W\)"),
        (
            lambda: build("CLIPModel"),
            (24, 3, 32, 32),
            {"budget": 0.5},
            "CLIPModel reads more than images.*vision_model",
        ),
        (lambda: torch.nn.Linear(2, 2), (24, 3, 32, 32), {"budget": 0.5}, "no Vision Transformer found in Linear"),
    ],
)
def test_the_model_is_left_as_it_was(make, shape, arguments, said, tmp_path):
    model = make().train()
    before = bits(model)
    with pytest.raises((ValueError, CatisError), match=said):
        catis.tune(model, torch.zeros(shape), minutes=1, output=tmp_path / "out", **arguments)
    assert model.training
    assert all(torch.equal(value, before[name]) or value.isnan().all() for name, value in model.state_dict().items())
    assert "catis_reduction" not in vars(model)
    assert not (tmp_path / "out").exists()


def test_a_model_without_a_head_is_tuned_by_its_features(quick, tmp_path):
    torch.manual_seed(0)
    model = timm.create_model("vit_tiny_patch16_224", img_size=64, depth=3, embed_dim=48, num_heads=3, num_classes=0)
    tuning = catis.tune(
        model.eval(), torch.randn(24, 3, 64, 64), budget=0.7, output=tmp_path, **{**quick, "minutes": 0.05}
    )
    assert {point.agreement for point in tuning.points} == {None}
    assert tuning.recipe.made.held_out_agreement is None
    assert 0 < tuning.recipe.made.held_out_kl < 1
    assert catis.apply(model, recipe=tmp_path) is model
    assert hosts.find(model).reduction is not None
