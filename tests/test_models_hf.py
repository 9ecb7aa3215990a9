"""transformers models by name: directories that save_pretrained wrote, and what lies beside the weights."""

import json

import numpy as np
import pytest
import torch
import transformers as hf
from PIL import Image
from safetensors.torch import load_file, save_file

import catis
from catis import hosts
from catis.data.preprocessing import Preprocessing
from catis.errors import MissingExtraError
from catis.models import build_model, is_hf_model, load_model

SMALL = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 48}


@pytest.fixture
def folder(tmp_path):
    torch.manual_seed(0)
    config = hf.ViTConfig(**SMALL, image_size=32, patch_size=8, num_labels=3)
    hf.ViTForImageClassification(config).eval().save_pretrained(tmp_path)
    return tmp_path


def test_a_saved_model_is_loaded_as_it_was(folder):
    model = load_model(str(folder))
    assert type(model) is hf.ViTForImageClassification
    assert not model.training
    plain = hf.ViTForImageClassification.from_pretrained(folder).eval()
    images = torch.randn(2, 3, 32, 32)
    with torch.no_grad():
        assert torch.equal(model(images).logits, plain(images).logits)


def test_half_weights_come_in_float32_as_all_models_do(folder):
    hf.ViTForImageClassification.from_pretrained(folder).half().save_pretrained(folder)
    assert load_model(str(folder)).dtype == torch.float32


def test_only_the_shape_on_the_meta_device(folder):
    model = build_model(str(folder), device="meta")
    assert next(model.parameters()).is_meta
    assert catis.gmacs(model) > 0


def test_what_is_a_transformers_name(folder, tmp_path):
    assert is_hf_model(str(folder))
    assert is_hf_model("google/vit-base-patch16-224")
    assert not any(map(is_hf_model, ["hf-hub:timm/vit", "tiny-12", "./here/there", "/some/folder", "a/b/c"]))
    (folder / "config.json").write_text(json.dumps({"architecture": "vit_tiny_patch16_224"}))  # timm's form
    assert not is_hf_model(str(folder))


def test_a_head_without_weights_is_refused(folder):
    saved = load_file(folder / "model.safetensors")
    weights = {name: value for name, value in saved.items() if "classifier" not in name}
    save_file(weights, folder / "model.safetensors", {"format": "pt"})
    with pytest.raises(ValueError, match=r"no weights for classifier\.bias, classifier\.weight"):
        load_model(str(folder))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda folder: (folder / "model.safetensors").write_bytes(b"x" * 50), "cannot load"),
        (lambda folder: (folder / "model.safetensors").unlink(), "cannot load"),
        (lambda folder: rewrite(folder, architectures=["NoSuchModel"]), "NoSuchModel.* not in transformers"),
        (lambda folder: rewrite(folder, model_type="no-such-type"), "cannot load"),
    ],
)
def test_a_damaged_folder_is_refused(folder, change, message):
    change(folder)
    with pytest.raises(ValueError, match=message):
        load_model(str(folder))


def rewrite(folder, **values):
    file = folder / "config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | values))


def test_a_hub_name_stays_off_the_network_unless_asked(monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(ValueError, match="`hf download no-such-org/no-such-model` puts it in the local cache"):
        load_model("no-such-org/no-such-model")


def test_settings_of_timm_are_refused(folder):
    with pytest.raises(ValueError, match="img_size cannot be set"):
        load_model(str(folder), img_size=64)
    with pytest.raises(ValueError, match="checkpoint cannot be set"):
        load_model(str(folder), "weights.safetensors")


def test_without_transformers_the_pip_command_is_named(folder, monkeypatch):
    monkeypatch.setattr("catis.errors.find_spec", lambda name: None)
    with pytest.raises(MissingExtraError, match=r"pip install 'catis\[transformers\]'"):
        load_model(str(folder))


def prepared(folder, processor):
    processor.save_pretrained(folder)
    return hosts.find(load_model(str(folder))).preprocessing()


def test_the_processor_says_how_images_are_prepared(folder):
    default = hosts.find(load_model(str(folder))).preprocessing()
    assert (default.size, default.mean) == ((32, 32), (0.485, 0.456, 0.406))
    squashed = prepared(folder, hf.ViTImageProcessor(size={"height": 32, "width": 32}, image_std=[0.2, 0.3, 0.4]))
    assert squashed == Preprocessing((32, 32), 1.0, (0.5, 0.5, 0.5), (0.2, 0.3, 0.4), "bilinear", "squash")
    centred = hf.CLIPImageProcessor(size={"shortest_edge": 93}, crop_size={"height": 32, "width": 32}, resample=3)
    found = prepared(folder, centred)
    assert (found.size, found.interpolation, found.crop_mode) == ((32, 32), "bicubic", "center")
    assert int(32 / found.crop_pct) == 93
    assert found.mean == tuple(centred.image_mean)
    plain = prepared(folder, hf.ViTImageProcessor(size={"height": 32, "width": 32}, do_normalize=False))
    assert (plain.mean, plain.std) == ((0.0, 0.0, 0.0), (1.0, 1.0, 1.0))


def test_our_preparation_is_the_processors_own(folder):
    processor = hf.CLIPImageProcessor(size={"shortest_edge": 40}, crop_size={"height": 32, "width": 32})
    ours = prepared(folder, processor)
    noise = np.random.default_rng(0).integers(0, 256, (64, 96, 3), dtype=np.uint8)
    theirs = processor(Image.fromarray(noise), return_tensors="pt")["pixel_values"]
    mine = ours.normalise([ours.pixels(Image.fromarray(noise))])
    assert (mine - theirs).abs().max() < 0.05  # a level or two of 255: Pillow and torch round differently


def test_a_folder_that_is_gone_gives_the_defaults(folder):
    model = load_model(str(folder))
    hf.ViTImageProcessor().save_pretrained(folder)
    folder.rename(folder.with_name("moved"))
    assert hosts.find(model).preprocessing().mean == (0.485, 0.456, 0.406)


def test_a_video_model_says_how_many_frames_it_takes(tmp_path):
    config = hf.VideoMAEConfig(**SMALL, image_size=32, patch_size=8, num_frames=8, num_labels=3)
    model = hf.VideoMAEForVideoClassification(config)
    authors = Preprocessing((32, 32), 1.0, interpolation="bilinear", frames=8)
    assert hosts.find(model).preprocessing() == authors
    with pytest.raises(ValueError, match="clips of 8 frames"):
        authors.normalise([np.zeros((32, 32, 3), np.uint8)])
    assert authors.normalise([np.zeros((8, 32, 32, 3), np.uint8)]).shape == (1, 8, 3, 32, 32)
    model.save_pretrained(tmp_path)
    processor = hf.VideoMAEVideoProcessor(size={"shortest_edge": 40}, crop_size={"height": 32, "width": 32})
    assert prepared(tmp_path, processor) == Preprocessing((32, 32), 0.8, *[(0.5, 0.5, 0.5)] * 2, "bilinear", frames=8)
