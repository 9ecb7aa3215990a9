"""VideoMAE on clips in the layout of UCF-101, from files to the record of a run."""

import json
from dataclasses import replace

import av
import numpy as np
import pytest
import torch
import transformers as hf
from PIL import Image
from typer.testing import CliRunner

import catis
from catis.cli import app
from catis.core.reduction import Reduction
from catis.evaluate import ImageCache, evaluate_run, load
from catis.evaluate.predict import BrokenImageError
from catis.runs import DataSpec, ModelSpec, RunSpec, Store
from tests.data.clips import encode, moving

COLOURS = {"archery": (250, 10, 10), "Biking": (10, 250, 10), "Diving": (10, 10, 250)}  # not in sorted order
CLASSES = list(COLOURS)
TOKENS = 128
MEAN, STD = (torch.tensor(values)[:, None, None] for values in ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)))


@pytest.fixture(scope="module")
def clips(tmp_path_factory):
    """Two clips for training and three for testing of each class, one of the latter empty."""
    root = tmp_path_factory.mktemp("ucf")
    for place, (name, colour) in enumerate(COLOURS.items()):
        for group in range(5):
            encode(root / name / f"v_{name}_g{group}.avi", moving(40 + 15 * group, colour, seed=7 * place + group))
    (root / "Diving" / "v_Diving_g4.avi").write_bytes(b"")
    lists = root / "ucfTrainTestlist"
    lists.mkdir()
    (lists / "classInd.txt").write_text("".join(f"{i} {name}\n" for i, name in enumerate(CLASSES, 1)))
    (lists / "testlist01.txt").write_text("".join(f"{name}/v_{name}_g{g}.avi\n" for name in CLASSES for g in (2, 3, 4)))
    return root


def inputs(path, indices, offsets=(5,)):
    """(crops, T, 3, H, W) by the shortest way: all frames, then those wanted."""
    with av.open(str(path)) as container:
        frames = [frame.to_image().resize((42, 32), Image.Resampling.BILINEAR) for frame in container.decode(video=0)]
    pixels = np.stack([np.asarray(frames[index]) for index in indices])
    views = np.stack([pixels[:, :, at : at + 32] for at in offsets])
    return (torch.from_numpy(views).permute(0, 1, 4, 2, 3).float() / 255 - MEAN) / STD


def middle(total):
    sampled = list(range(0, total, 4))
    sampled += [sampled[-1]] * (16 - len(sampled))
    start = (len(sampled) - 16) // 2
    return sampled[start : start + 16]


@pytest.fixture(scope="module")
def folder(clips, tmp_path_factory):
    """A random VideoMAE whose classifier is fitted to the training clips."""
    torch.manual_seed(0)
    config = hf.VideoMAEConfig(
        hidden_size=32, num_hidden_layers=4, num_attention_heads=2, intermediate_size=48, image_size=32, patch_size=8,
        num_labels=3,
    )  # fmt: skip
    model = hf.VideoMAEForVideoClassification(config).eval()
    train = [(i, clips / name / f"v_{name}_g{g}.avi", 40 + 15 * g) for i, name in enumerate(CLASSES) for g in (0, 1)]
    with torch.no_grad():
        pooled = torch.cat([model.fc_norm(model.videomae(inputs(path, middle(n)))[0].mean(1)) for _, path, n in train])
        wanted = torch.eye(3)[[label for label, _, _ in train]] * 6
        model.classifier.weight.copy_(torch.linalg.lstsq(pooled, wanted, driver="gelsd").solution.T)
        model.classifier.bias.zero_()
    path = tmp_path_factory.mktemp("models") / "videomae-tiny"
    model.save_pretrained(path)
    hf.VideoMAEImageProcessor(
        size={"shortest_edge": 32}, crop_size={"height": 32, "width": 32},
        image_mean=MEAN.flatten().tolist(), image_std=STD.flatten().tolist(),
    ).save_pretrained(path)  # fmt: skip
    return path


@pytest.fixture(scope="module")
def model(folder):
    return load(ModelSpec(str(folder)))


@pytest.fixture
def spec(clips, folder):
    return RunSpec(ModelSpec(str(folder)), DataSpec("ucf101", str(clips)), batch_size=4)


@pytest.fixture
def vanilla(spec, model):
    return evaluate_run(spec, model=model)


def test_predictions_are_those_of_the_shortest_way(clips, model, vanilla):
    record, said = vanilla
    for place, name in enumerate(said.names):
        group = int(name[-5])
        with torch.no_grad():
            shares = model.module(inputs(clips / name, middle(40 + 15 * group))).logits.softmax(1)[0]
        assert said.top[place].tolist() == shares.argsort(descending=True).tolist()
        assert said.confidence[place] == pytest.approx(float(shares.max()), abs=1e-5)
    assert record.top1 == 100.0


def test_the_record_counts_and_names_what_could_not_be_read(vanilla):
    record, said = vanilla
    assert (record.n_total, record.n_read, record.n_broken) == (9, 8, 1)
    assert record.broken == [["Diving/v_Diving_g4.avi", "InvalidDataError: Invalid data found when processing input"]]
    assert said.labels.tolist() == [0, 0, 0, 1, 1, 1, 2, 2]
    assert record.preprocessing["frames"] == 16
    assert record.preprocessing["crop_pct"] == 1.0


def test_a_broken_clip_can_end_the_run(spec, model):
    with pytest.raises(BrokenImageError, match=r"Diving/v_Diving_g4\.avi: InvalidDataError"):
        evaluate_run(replace(spec, on_error="raise"), model=model)


@pytest.mark.parametrize("method", ["catis", "tome"])
def test_removing_nothing_is_the_plain_run(spec, model, vanilla, method):
    record, said = evaluate_run(replace(spec, reduction=Reduction.of(method, r=0)), model=model, vanilla=vanilla[1])
    assert np.array_equal(said.confidence, vanilla[1].confidence)
    assert np.array_equal(said.top, vanilla[1].top)
    assert (record.agreement, record.name) == (100.0, vanilla[0].name)


@pytest.mark.parametrize("method", ["catis", "tome", "tofu", "pitome", "mctf"])
def test_reduced_runs(spec, model, vanilla, method):
    record, said = evaluate_run(replace(spec, reduction=Reduction.of(method, r=16)), model=model, vanilla=vanilla[1])
    assert record.tokens == [TOKENS - 16 * (layer + 1) for layer in range(4)]
    assert record.patches == TOKENS
    assert record.gmacs == pytest.approx(catis.gmacs(model.module, method, r=16))
    assert record.gmacs < record.gmacs_vanilla == vanilla[0].gmacs
    assert not np.array_equal(said.confidence, vanilla[1].confidence)
    assert record.agreement_n == 8


@pytest.mark.parametrize("batch_size", [1, 4, 64])
def test_views_are_averaged_as_probabilities(clips, spec, model, batch_size):
    """Two segments by three crops; more views than a batch holds, or several clips in one."""
    data = replace(spec.data, name="ucf101-2x3")
    record, said = evaluate_run(replace(spec, data=data, batch_size=batch_size), model=model)
    place = said.names.index("Biking/v_Biking_g3.avi")  # 85 frames: 22 sampled, so the second segment begins at 24
    both = [inputs(clips / said.names[place], range(start, start + 61, 4), (0, 5, 10)) for start in (0, 24)]
    with torch.no_grad():
        shares = model.module(torch.cat(both)).logits.softmax(1)
    assert said.confidence[place] == pytest.approx(float(shares.mean(0).max()), abs=1e-5)
    assert float(shares[:, said.top[place, 0]].std()) > 1e-4  # the views do differ
    assert (record.n_read, record.data) == (8, "ucf101-2x3")


def test_the_name_of_a_run_depends_on_the_views(spec, vanilla, model):
    other, _ = evaluate_run(replace(spec, data=replace(spec.data, name="ucf101-1x3")), model=model)
    assert other.data_fingerprint != vanilla[0].data_fingerprint
    assert other.name != vanilla[0].name


def test_clips_are_decoded_once(spec, model, vanilla, tmp_path, monkeypatch):
    cache = ImageCache(tmp_path / "cache")
    evaluate_run(spec, model=model, cache=cache)
    monkeypatch.setattr("catis.data.video.read_frames", None)
    record, said = evaluate_run(spec, model=model, cache=cache)
    assert np.array_equal(said.confidence, vanilla[1].confidence)
    assert record.broken == vanilla[0].broken
    assert cache.bytes_used() == pytest.approx(9 * 16 * 32 * 32 * 3, rel=0.01)


def renamed(folder, path, names):
    model = hf.VideoMAEForVideoClassification.from_pretrained(folder)
    model.config.id2label = dict(enumerate(names))
    model.config.label2id = {name: place for place, name in enumerate(names)}
    model.save_pretrained(path)
    return ModelSpec(str(path))


def test_classes_go_by_the_names_that_the_model_has(spec, folder, tmp_path):
    turned = renamed(folder, tmp_path, ["diving", "BIKING", "Archery"])
    _, said = evaluate_run(replace(spec, model=turned))
    assert said.labels.tolist() == [2, 2, 2, 1, 1, 1, 0, 0]


def test_some_names_only_are_refused(spec, folder, tmp_path):
    some = renamed(folder, tmp_path, ["Archery", "Biking", "Swimming"])
    with pytest.raises(ValueError, match=r"1 classes that the model does not know by name \(Diving\)"):
        evaluate_run(replace(spec, model=some))


def test_a_plain_folder_of_clips(clips, spec, model):
    record, said = evaluate_run(replace(spec, data=DataSpec("clips", str(clips), limit=5)), model=model)
    assert (record.n_total, record.n_broken) == (5, 1)
    assert said.labels.tolist() == [0, 0, 1, 2]  # the folders in sorted order
    assert [name.split("/")[0] for name in said.names] == ["Biking", "Biking", "Diving", "archery"]


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        (None, DataSpec("imagenet", "."), "takes clips; pass ucf101=DIR"),
        ("tiny-6", DataSpec("ucf101", "."), "takes images; use a video model"),
        (None, DataSpec("ucf101"), "expected ucf101=DIR"),
        (None, DataSpec("ucf101", ".", corruption="fog", severity=3), "corruptions are made for images"),
    ],
)
def test_what_does_not_fit_together(folder, name, data, message):
    with pytest.raises(ValueError, match=message):
        evaluate_run(RunSpec(ModelSpec(name or str(folder)), data))


def test_the_command_writes_a_record(clips, folder, tmp_path):
    arguments = ["eval", str(folder), "--data", f"ucf101={clips}", "-m", "catis", "-r", "16", "--batch-size", "4"]
    arguments += ["--store", str(tmp_path / "store"), "--cache", str(tmp_path / "cache"), "--device", "cpu"]
    done = CliRunner().invoke(app, arguments, terminal_width=160)
    assert done.exit_code == 0, done.output
    assert "v_Diving_g4.avi: InvalidDataError" in done.output
    assert "8 of 9" in done.output
    records = {record.method: record for record in Store(tmp_path / "store").records()}
    assert records.keys() == {"vanilla", "catis"}
    assert records["catis"].model == "videomae-tiny"
    assert records["catis"].tokens[-1] == TOKENS - 64
    assert len(Store(tmp_path / "store").predictions(records["catis"].name)) == 8
    assert json.loads(records["catis"].to_json())["data"] == "ucf101"
