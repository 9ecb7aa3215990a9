"""`catis.calibrate`: closer to vanilla on images that it never saw, in place, and undone bit for bit."""

import copy
import itertools

import pytest
import timm
import torch
from timm.layers import LayerScale
from torch.utils.data import DataLoader, TensorDataset

import catis
from catis import hosts, zoo
from catis.calibration.answers import distances
from catis.calibration.run import calibrated_weights
from catis.calibration.views import views
from catis.errors import CatisError
from catis.zoo.dataset import dataset

REDUCTION = {"method": "tome", "r": [36, 28, 20, 15, 11, 0]}


@pytest.fixture(scope="module")
def images():
    """Pictures of the embedded set, as the zoo's models want them: 240 to calibrate on, 240 to judge."""
    return torch.cat([batch for batch, _ in dataset("clean", "val", n=480).batches(32)])


def apart(model, vanilla, images):
    with torch.no_grad():
        return float(distances(vanilla(images), model(images), True).mean())


def test_it_comes_closer_to_vanilla_on_other_images(images):
    vanilla = zoo.load("tiny-6")
    model = catis.apply(copy.deepcopy(vanilla), **REDUCTION)
    before = apart(model, vanilla, images[240:])
    assert catis.calibrate(model, images[:96]) is model
    assert apart(model, vanilla, images[240:]) < 0.8 * before


def test_remove_gives_every_weight_back(images):
    vanilla = zoo.load("tiny-6")
    model = catis.apply(copy.deepcopy(vanilla), **REDUCTION)
    catis.calibrate(model, images[:96])
    assert hosts.find(model).correction is not None
    catis.remove(model)
    for name, value in model.state_dict().items():
        assert torch.equal(value, vanilla.state_dict()[name]), name
    assert torch.equal(model(images[:2]), vanilla(images[:2]))


def test_the_same_images_give_the_same_weights_in_any_form(images):
    batches = DataLoader(TensorDataset(images[:96], torch.arange(96)), batch_size=7)
    given = [images[:96], list(images[:96].split(5)), batches]
    weights = []
    for form in given:
        model = catis.apply(zoo.load("tiny-6"), **REDUCTION)
        catis.calibrate(model, form)
        weights.append(hosts.find(model).correction.values)
    assert weights[0]
    for other in weights[1:]:
        assert other.keys() == weights[0].keys()
        assert all(torch.equal(other[name], value) for name, value in weights[0].items())


def test_a_block_is_left_alone_where_held_out_answers_do_not_come_closer(images):
    """Held out is what the fit cannot know: white noise with other statistics. Nothing may get worse there."""
    model = zoo.load("tiny-6")
    handle = hosts.find(model)
    reduction = handle.bind(catis.hosts.find(catis.apply(zoo.load("tiny-6"), **REDUCTION)).reduction)
    batches = list(views(images[:24], handle.preprocessing(), 8, held_out=20 * torch.randn(8, 3, 96, 96)))
    outcome = calibrated_weights(model, reduction, batches)
    assert outcome.after <= outcome.before
    assert len(outcome.shares) == 6


def test_the_last_block_for_the_head_alone_and_a_smaller_image(images):
    vanilla = zoo.load("tiny-6")
    model = catis.apply(copy.deepcopy(vanilla), "mctf", r=[20, 15, 10, 8, 6, 0], head_only=True, input_size=88)
    before = apart(model, vanilla, images[240:])
    catis.calibrate(model, images[:240])
    assert apart(model, vanilla, images[240:]) < before


@pytest.mark.parametrize(
    "name",
    ["vit_tiny_patch16_224", "deit3_small_patch16_224", "vit_small_patch14_dinov2", "vit_base_patch16_siglip_224"],
)
def test_families_of_timm_come_closer(name):
    """LayerScale, average and attention pools, patches read by the head; small and random."""
    torch.manual_seed(0)
    size = 56
    model = timm.create_model(name, img_size=size, depth=3, embed_dim=48, num_heads=3, num_classes=7).eval()
    for layer in [module for module in model.modules() if isinstance(module, LayerScale)]:
        torch.nn.init.constant_(layer.gamma, 0.5)  # at timm's start blocks add nothing, so that nothing could be mended
    pictures = torch.randn(32, 3, size, size).cumsum(-1).div(6)
    reduction = hosts.find(model).bind(hosts.find(catis.apply(copy.deepcopy(model), "tome", r=3)).reduction)
    batches = list(views(pictures, hosts.find(model).preprocessing(), 16))
    outcome = calibrated_weights(model, reduction, batches)
    assert outcome.after < outcome.before
    assert outcome.weights


def test_corrupted_views_aim_at_the_image_before(images):
    """They are copies of images of the batch before, so that vanilla has seen those whole; each is corrupted."""
    seen = list(views(images[:16], hosts.find(zoo.load("tiny-6")).preprocessing(), 4, rounds=3, thorough=True))
    pairs = [(before, view) for before, view in itertools.pairwise(seen) if view.copies is not None]
    assert {before.copies for before, _ in pairs} == {None}
    for before, view in pairs:
        whole = before.images[view.copies]
        assert whole.shape == view.images.shape
        assert view.held_out is before.held_out
        assert all(not torch.equal(*both) for both in zip(whole, view.images, strict=True))
    assert sum(len(view.images) for view in seen if view.held_out) == 12
    assert sum(len(view.images) for view in seen) == 12 + 3 * 18


def test_crops_are_parts_of_the_image_and_the_same_for_the_same_seed(images):
    preprocessing = hosts.find(zoo.load("tiny-6")).preprocessing()
    first, again, other = (
        torch.cat([v.images for v in views(images[:16], preprocessing, 4, seed=seed, rounds=2) if v.copies is None])
        for seed in (0, 0, 1)
    )
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
    assert first.min() >= images[:16].min() - 1e-4
    assert first.max() <= images[:16].max() + 1e-4


def test_calibration_makes_up_for_noise_too(images):
    """On corrupted images the reduced model comes closer to what vanilla says of the image before."""
    vanilla = zoo.load("tiny-6")
    model = catis.apply(copy.deepcopy(vanilla), **REDUCTION)
    noise = 0.18 * torch.randn(240, 3, 96, 96, generator=torch.Generator().manual_seed(3)) / 0.25
    with torch.no_grad():
        before = distances(vanilla(images[240:]), model(images[240:] + noise), True).mean()
        catis.calibrate(model, images[:96])
        after = distances(vanilla(images[240:]), model(images[240:] + noise), True).mean()
    assert after < before


def test_too_few_images_and_no_reduction_are_said(images):
    model = catis.apply(zoo.load("tiny-6"), **REDUCTION)
    with pytest.raises(CatisError, match="1 images: expected at least 8"):
        catis.calibrate(model, images[:1])
    with pytest.raises(CatisError, match="no images"):
        catis.calibrate(model, [])
    with pytest.raises(ValueError, match="not finite"):
        catis.calibrate(model, torch.full((8, 3, 96, 96), float("nan")))
    with pytest.raises(ValueError, match="is not reduced"):
        catis.calibrate(zoo.load("tiny-6"), images)
    assert hosts.find(model).correction is None


def test_a_model_whose_answers_are_not_finite_is_left_as_it_was(images):
    model = zoo.load("tiny-6")
    torch.nn.init.constant_(model.head.bias, float("nan"))
    catis.apply(model, **REDUCTION)
    with pytest.raises(CatisError, match="logits of VisionTransformer are not finite"):
        catis.calibrate(model, images[:16])
    assert hosts.find(model).correction is None


def test_a_folder_of_which_nothing_can_be_read_names_the_first_image_and_the_reason(tmp_path):
    folder, outside = tmp_path / "photos", tmp_path / "elsewhere.png"
    folder.mkdir()
    outside.write_bytes(b"no picture")
    (folder / "a.png").symlink_to(outside)
    (folder / "b.png").write_bytes(b"no picture either")
    model = catis.apply(zoo.load("tiny-6"), **REDUCTION)
    with pytest.raises(CatisError, match=r"none of 2 images in .*photos could be read; the first: a.png: .*link"):
        catis.calibrate(model, folder)
