"""One run: right against an independent count, the same bit for bit, and named by what it computes."""

from dataclasses import replace

import numpy as np
import pytest
import timm
import torch
from PIL import Image
from safetensors.torch import save_file

import catis
import catis.zoo
from catis.core.reduction import Reduction
from catis.errors import CatisError
from catis.evaluate import ImageCache, evaluate_run, identify, load
from catis.evaluate.predict import BrokenImageError
from catis.macs import compare_macs
from catis.runs import DataSpec, ModelSpec, Record, RunSpec
from tests.evaluate.folders import IDS, break_images, write_images, write_zoo

SPEC = RunSpec(ModelSpec("tiny-6"), DataSpec("zoo-clean", limit=48), Reduction.of("tome", 8), batch_size=16)


@pytest.fixture(scope="module")
def model():
    return load(SPEC.model)


def counted(method=None, **settings):
    """Right answers of the zoo's own data set and model, counted without any of the code under test."""
    net = catis.zoo.load("tiny-6")
    if method:
        catis.apply(net, method, **settings)
    with torch.inference_mode():
        found = [(net(x).argmax(1) == y) for x, y in catis.zoo.dataset("clean", n=48).batches(16)]
    return int(torch.cat(found).sum())


def test_accuracy_is_that_of_an_independent_count(model):
    plain, said = evaluate_run(SPEC.vanilla, model=model)
    reduced, _ = evaluate_run(SPEC, model=model, vanilla=said)
    assert plain.correct1 == counted()
    assert reduced.correct1 == counted("tome", r=8)
    assert (plain.n_total, plain.n_read, plain.n_broken, plain.classes) == (48, 48, 0, 24)
    assert plain.top1 == pytest.approx(100 * plain.correct1 / 48)
    assert plain.top1_low < plain.top1 < plain.top1_high
    cost = compare_macs(catis.zoo.load("tiny-6"), Reduction.of("tome", 8))
    assert (reduced.gmacs, reduced.gmacs_vanilla, tuple(reduced.tokens)) == (cost.reduced, cost.vanilla, cost.tokens)
    assert list(reduced.amounts) == [8] * 6
    assert (plain.method, plain.gmacs, plain.agreement, reduced.agreement_n) == ("vanilla", cost.vanilla, None, 48)


def test_the_same_run_is_the_same_record_bit_for_bit(model, tmp_path):
    cache = ImageCache(tmp_path)
    runs = [evaluate_run(SPEC, model=model), evaluate_run(SPEC), *(evaluate_run(SPEC, cache=cache) for _ in range(2))]
    first, said = runs[0]
    for record, predictions in runs[1:]:
        assert record.content() == first.content()
        assert np.array_equal(predictions.margin, said.margin)
        assert np.array_equal(predictions.confidence, said.confidence)
    assert Record.from_json(first.to_json()) == first
    assert not isinstance(model.module, type(catis.apply(catis.zoo.load("tiny-6"), "tome", r=1)))  # as it was


def test_the_order_of_images_in_batches_hardly_matters(model):
    one, _ = evaluate_run(SPEC, model=model)
    other, _ = evaluate_run(replace(SPEC, batch_size=7), model=model)
    assert other.correct1 == one.correct1
    assert other.name == one.name


SAME = [
    {"batch_size": 3},
    {"on_error": "raise"},
    {"reduction": Reduction.of("tome", [8] * 6)},
]
OTHER = [
    {"reduction": Reduction.of("pitome", 8)},
    {"reduction": Reduction.of("tome", 7)},
    {"reduction": Reduction.of("tome", (8, -1.0))},
    {"reduction": Reduction.of("tome", 8, reference=True)},
    {"reduction": Reduction.of("tome", 8, prop_attn=False)},
    {"precision": "bfloat16"},
    {"compile": True},
    {"seed": 1},
    {"data": DataSpec("zoo-clean", limit=24)},
    {"data": DataSpec("zoo-sketch", limit=48)},
    {"data": DataSpec("zoo-clean", limit=48, corruption="fog", severity=2)},
]


def test_names_are_made_of_what_decides_the_result_and_of_nothing_else(model):
    def name(**changes):
        spec = replace(SPEC, **changes)
        return identify(spec, model, model.images(spec)).name

    assert {name(**change) for change in SAME} == {name()}
    assert len({name(), *(name(**change) for change in OTHER)}) == 1 + len(OTHER)
    assert name(reduction=Reduction.of("tome", 0)) == name(reduction=Reduction.none())


def test_other_weights_and_preprocessing_are_another_run(tmp_path):
    net = catis.zoo.load("tiny-6")
    save_file(net.state_dict(), tmp_path / "same.safetensors")
    net.head.bias.data[0] += 1
    save_file(net.state_dict(), tmp_path / "other.safetensors")

    def name(**changes):
        spec = replace(SPEC, model=replace(SPEC.model, **changes))
        loaded = load(spec.model)
        return identify(spec, loaded, loaded.images(spec)).name

    assert name(checkpoint=str(tmp_path / "same.safetensors")) == name()
    assert name(checkpoint=str(tmp_path / "other.safetensors")) != name()
    assert len({name(), name(crop_pct=0.9), name(mean=(0.5, 0.5, 0.5))}) == 3


def test_random_weights_depend_on_the_seed_and_leave_torchs_numbers_alone():
    torch.manual_seed(5)
    expected = torch.rand(1)
    torch.manual_seed(5)
    hashes = [load(ModelSpec("test_vit"), seed).weights for seed in (0, 0, 1)]
    assert torch.rand(1) == expected
    assert hashes[0] == hashes[1] != hashes[2]


@pytest.mark.filterwarnings("ignore::PIL.Image.DecompressionBombWarning")
def test_broken_images_are_counted_listed_and_never_replaced(tmp_path, monkeypatch, model):
    root = write_zoo(tmp_path / "set")
    folder = sorted(path.name for path in root.iterdir())[0]
    whole, _ = evaluate_run(replace(SPEC, data=DataSpec("set", str(root))), model=model)
    names = break_images(root, folder, tmp_path / "elsewhere")
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 20_000)
    spec = replace(SPEC, data=DataSpec("set", str(root)))
    record, predictions = evaluate_run(spec, model=model)
    assert (record.n_total, record.n_read, record.n_broken) == (53, 48, 5)
    assert [name for name, _ in record.broken] == names
    assert (record.correct1, record.top1) == (whole.correct1, whole.top1)
    assert not set(names) & set(predictions.names)
    assert all(reason and str(tmp_path) not in reason for _, reason in record.broken)
    with pytest.raises(BrokenImageError, match=r"bomb\.png.*--on-error skip"):
        evaluate_run(replace(spec, on_error="raise"), model=model)


def test_imagenet_r_is_scored_over_its_200_classes(tmp_path):
    root = write_images(tmp_path, IDS, each=4, size=170)
    spec = RunSpec(ModelSpec("test_vit"), DataSpec("imagenet-r", str(root)))
    loaded = load(spec.model)
    record, said = evaluate_run(spec, model=loaded)
    inside = set(loaded.images(spec).about.scored)
    assert record.classes == 200
    assert set(said.top.reshape(-1).tolist()) <= inside
    assert said.labels.tolist() == [1] * 4 + [2] * 4 + [207] * 4
    free, wide = evaluate_run(replace(spec, data=DataSpec("imagenet", str(root))), model=loaded)
    assert free.classes == 1000
    assert not set(wide.top.reshape(-1).tolist()) <= inside


def test_published_and_generated_corruptions(tmp_path):
    root = write_images(tmp_path / "c" / "fog" / "3", IDS, size=170)
    model = load(ModelSpec("test_vit"))
    spec = RunSpec(model_spec := ModelSpec("test_vit"), DataSpec("imagenet-c", str(tmp_path / "c"), None, "fog", 3))
    published, _ = evaluate_run(spec, model=model)
    assert (published.data, published.corruption, published.severity) == ("imagenet-c", "fog", 3)
    plain = RunSpec(model_spec, DataSpec("imagenet", str(root)))
    made = replace(plain, data=replace(plain.data, corruption="fog", severity=3))
    pixels = [model.images(one).prepared().pixels for one in (spec, plain, made)]
    assert np.array_equal(pixels[0], pixels[1])
    assert not np.array_equal(pixels[1], pixels[2])


def test_preprocessing_is_the_models_unless_it_is_said_otherwise():
    config = timm.create_model("test_vit").pretrained_cfg
    found = load(ModelSpec("test_vit")).preprocessing
    assert (found.crop_pct, found.mean) == (config["crop_pct"], config["mean"])
    changed = load(ModelSpec("test_vit", img_size=128, crop_pct=0.7, std=(1, 1, 1), interpolation="bilinear"))
    told = changed.preprocessing
    assert (told.size, told.crop_pct, told.std, told.interpolation) == ((128, 128), 0.7, (1, 1, 1), "bilinear")


def test_a_transformers_model_is_prepared_as_its_processor_says(tmp_path):
    transformers = pytest.importorskip("transformers")
    config = transformers.ViTConfig(
        hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=64, image_size=32, patch_size=8,
        num_labels=24,
    )  # fmt: skip
    transformers.ViTForImageClassification(config).save_pretrained(tmp_path / "saved")
    processor = transformers.ViTImageProcessor(size={"height": 32, "width": 32}, image_mean=[0.4] * 3)
    processor.save_pretrained(tmp_path / "saved")
    spec = RunSpec(ModelSpec(str(tmp_path / "saved")), DataSpec("zoo-clean", limit=24), Reduction.of("tome", 3))
    model = load(spec.model)
    assert (model.preprocessing.mean, model.preprocessing.crop_mode) == ((0.4,) * 3, "squash")
    record, _ = evaluate_run(spec, model=model)
    assert (record.model, record.n_read, list(record.tokens)) == ("saved", 24, [13, 10])


def test_a_model_without_classifier_is_refused():
    with pytest.raises(CatisError, match="has no classifier"):
        load(ModelSpec("test_vit", settings={"num_classes": 0}))


def test_a_runs_identity_is_worked_out_once(model, monkeypatch):
    images = model.images(SPEC)
    identity = identify(SPEC, model, images)
    monkeypatch.setattr("catis.evaluate.run._identity_of", lambda *_: pytest.fail("worked out again"))
    record, _ = evaluate_run(SPEC, model=model, images=images, identity=identity)
    assert record.name == identity.name
