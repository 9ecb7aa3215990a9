"""What the page shows, without a page: numbers against the library's own, mistakes as sentences, files that work."""

import io
import json
import runpy
import threading
import zipfile
from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
from onnx import TensorProto, helper
from PIL import Image
from typer.testing import CliRunner

import catis
from catis import hosts
from catis.app import answering, desk, onnx_model, views
from catis.app.answering import Settings, answer
from catis.app.choices import Named, load_choices
from catis.app.desk import zipped
from catis.app.photos import Photo
from catis.app.tabs import NOTHING, curves_view
from catis.cli import app
from catis.inference import shared_copy
from catis.models import load_model
from catis.recipes import Recipe, load_recipe, save_recipe
from catis.runs.store import Store
from tests.runs.records import predictions, record


def test_the_numbers_are_the_librarys(choices, photos):
    found = answer(choices, Photo(photos[0]), Settings("tiny-12", "tome", 0.5))
    model = load_model("tiny-12")
    preprocessing = hosts.find(model).preprocessing()
    images = preprocessing.normalise([preprocessing.pixels(Image.open(photos[0]))])
    with torch.no_grad():
        shares = {"before": model(images).softmax(-1)[0]}
        catis.apply(model, "tome", budget=0.5)
        shares["after"] = model(images).softmax(-1)[0]
    for name, share in shares.items():
        guesses = getattr(found, name)
        assert [guess.share for guess in guesses] == pytest.approx(share.topk(5).values.tolist(), abs=1e-6)
        assert guesses[0].label == hosts.find(model).labels[int(share.argmax())]
    assert found.cost.reduced == pytest.approx(catis.gmacs(model))
    assert found.cost.tokens == catis.info(model).tokens
    assert [block.tokens_left for block in found.traced] == list(catis.info(model).tokens)
    assert found.ms_before > 0 < found.ms_after
    assert found.rounds >= 3


def test_the_shared_model_stays_vanilla_and_weights_are_not_copied(choices, photos):
    model = choices.models["tiny-6"]
    before = {name: (tensor, tensor.clone()) for name, tensor in model.state_dict(keep_vars=True).items()}
    copy = shared_copy(model)
    catis.apply(copy, "catis", r=9)
    assert all(a is b for a, b in zip(copy.parameters(), model.parameters(), strict=True))
    answer(choices, Photo(photos[0]), Settings("tiny-6", "catis", 0.4))
    assert hosts.find(model).reduction is None
    assert all(tensor is before[name][0] and torch.equal(tensor, before[name][1])
               for name, tensor in model.state_dict(keep_vars=True).items())  # fmt: skip


def test_answers_at_once_are_those_of_one_after_another(choices, photos):
    wanted = [(photo, budget) for photo in photos[:2] for budget in (0.3, 0.7)]
    alone = [answer(choices, Photo(photo), Settings("tiny-6", "catis", budget)) for photo, budget in wanted]
    together = {}

    def ask(at):
        photo, budget = wanted[at]
        together[at] = answer(choices, Photo(photo), Settings("tiny-6", "catis", budget))

    threads = [threading.Thread(target=ask, args=(at,)) for at in range(len(wanted))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for at, expected in enumerate(alone):
        assert [guess.label for guess in together[at].after] == [guess.label for guess in expected.after]
        assert together[at].cost == expected.cost
        assert torch.equal(together[at].traced.output, expected.traced.output)


def test_the_whole_budget_is_vanilla(choices, photos):
    found = answer(choices, Photo(photos[0]), Settings("tiny-6", "catis", 1.0))
    assert found.cost.reduced == found.cost.vanilla
    assert [guess.share for guess in found.after] == pytest.approx([guess.share for guess in found.before], abs=1e-5)
    assert "No block up to 3 removed anything" in views.signals_view(found, 3)


def test_a_block_without_signals_shows_those_of_the_block_before(choices, photos):
    found = answer(choices, Photo(photos[0]), Settings("tiny-6", "catis", 0.5))
    assert "Block 6 removed nothing; this is block 5" in views.signals_view(found, 6)  # the head reads no patches
    assert "s_nf, block 4" in views.signals_view(found, 4)
    assert "this is block" not in views.signals_view(found, 4)


def test_the_download_makes_the_figure_again(choices, photos, tmp_path, monkeypatch):
    found = answer(choices, Photo(photos[1]), Settings("tiny-6", "catis", 0.5))
    with zipfile.ZipFile(io.BytesIO(zipped(found, choices.named["tiny-6"]))) as archive:
        archive.extractall(tmp_path)
    monkeypatch.chdir(tmp_path)
    runpy.run_path("again.py")
    assert Path("again.png").read_bytes() == Path("figure.png").read_bytes()
    assert load_recipe("catis_recipe.json").reduction.budget == 0.5


def test_recipes_are_offered_and_put_on(choices, photos, tmp_path):
    for budget in (0.3, 0.6):
        save_recipe(catis.apply(load_model("tiny-6"), "tome", budget=budget), tmp_path / "tuned" / str(budget))
    own = load_choices([Named("tiny-6")], [tmp_path / "tuned"])
    ways = own.ways("tiny-6")
    assert ways[:3] == ["catis", "recipe tuned/0.3", "recipe tuned/0.6"]
    found = answer(own, Photo(photos[0]), Settings("tiny-6", ways[1], budget=0.9))
    assert found.cost.reduced / found.cost.vanilla == pytest.approx(0.3, abs=0.01)
    assert found.recipe.reduction.method.name == "tome"


BAD = {
    "text.png": (b"no image at all", "cannot be read as an image"),
    "empty.jpg": (b"", "cannot be read as an image"),
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_file_is_a_sentence(choices, tmp_path, name):
    content, words = BAD[name]
    (tmp_path / name).write_bytes(content)
    shown = desk.Desk(choices, []).respond(Photo(tmp_path / name), "tiny-6", "catis", 0.5, 3)
    assert words in shown.said
    assert str(tmp_path) not in shown.said
    assert shown.answer is None


def test_too_many_pixels_and_bytes_are_refused_before_they_are_read(choices, tmp_path, monkeypatch):
    Image.new("L", (10_000, 6_000)).save(tmp_path / "large.png")
    shown = desk.Desk(choices, []).respond(Photo(tmp_path / "large.png"), "tiny-6", "catis", 0.5, 3)
    assert "10000 x 6000 pixels; at most 50 million" in shown.said
    monkeypatch.setattr("catis.app.photos.MOST_BYTES", 100)
    assert "at most" in desk.Desk(choices, []).respond(Photo(tmp_path / "large.png"), "tiny-6", "catis", 0.5, 3).said


def test_a_photo_is_turned_as_the_camera_says(choices, photos, tmp_path):
    upright = Image.open(photos[0])
    exif = Image.Exif()
    exif[0x0112] = 6  # to be turned by a quarter, clockwise
    upright.transpose(Image.Transpose.ROTATE_90).save(tmp_path / "turned.png", exif=exif)
    preprocessing = hosts.find(choices.models["tiny-6"]).preprocessing()
    assert np.array_equal(Photo(tmp_path / "turned.png").pixels(preprocessing), Photo(photos[0]).pixels(preprocessing))


def test_a_budget_out_of_reach_is_a_sentence_and_a_fault_of_ours_is_not(choices, photos, monkeypatch):
    own = desk.Desk(choices, [])
    assert "nobody can reach it" in own.respond(Photo(photos[0]), "tiny-6", "catis", 0.01, 3).said
    monkeypatch.setattr(desk, "answer", lambda *args: (_ for _ in ()).throw(RuntimeError("a bug")))
    with pytest.raises(RuntimeError, match="a bug"):
        own.respond(Photo(photos[0]), "tiny-6", "catis", 0.5, 3)
    monkeypatch.setattr(desk, "answer", lambda *args: (_ for _ in ()).throw(RuntimeError("CUDA out of memory")))
    assert "not enough memory" in own.respond(Photo(photos[0]), "tiny-6", "catis", 0.5, 3).said


def test_labels_are_escaped():
    guess = answering.Guess("<script>alert(1)</script>", 0.5)
    shown = views._bars("with reduction", [guess])
    assert "<script>" not in shown
    assert "&lt;script&gt;" in shown


def test_the_diagnosis_has_a_verdict_and_a_figure(choices, photos):
    own = desk.Desk(choices, photos)
    done = []
    shown = own.diagnose("tiny-6", "catis", 0.5, lambda *told: done.append(told))
    assert "too few images to tell" in shown
    assert shown.count('role="img"') == 3
    assert done[-1] == (4, 4)


def test_the_curves_of_a_store_and_of_nothing(tmp_path):
    assert NOTHING.split(".")[0] in curves_view([])
    store = Store(tmp_path / "runs")
    store.write(
        record("v", method="vanilla", r=0, schedule="", amounts=[0, 0], gmacs=0.12, top1=80.0), predictions(40, 32)
    )
    store.write(record("t", gmacs=0.09, top1=79.5), predictions(40, 31))
    shown = curves_view([tmp_path / "runs"])
    assert shown.count('role="img"') == 1
    assert "tome" in shown
    (tmp_path / "none").mkdir()
    with pytest.raises(ValueError, match="no records in it"):
        curves_view([tmp_path / "none"])


def exported(path: Path, recipe: Recipe | None, **metadata: object) -> Path:
    """A file as `catis export` writes it: here the mean of the image for class 1, nothing for the others."""
    image = helper.make_tensor_value_info("pixel_values", TensorProto.FLOAT, ["batch", 3, 96, 96])
    logits = helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["batch", 3])
    weight = helper.make_tensor("weight", TensorProto.FLOAT, [1, 3], [0.0, 1.0, 0.0])
    nodes = [
        helper.make_node("ReduceMean", ["pixel_values"], ["mean"], axes=[1, 2, 3], keepdims=0),
        helper.make_node("Unsqueeze", ["mean", "last"], ["column"]),
        helper.make_node("MatMul", ["column", "weight"], ["logits"]),
    ]
    last = helper.make_tensor("last", TensorProto.INT64, [1], [1])
    model = helper.make_model(
        helper.make_graph(nodes, "g", [image], [logits], [weight, last]),
        opset_imports=[helper.make_opsetid("", 17)], ir_version=9,
    )  # fmt: skip
    content = {"recipe": None if recipe is None else recipe.to_json(), **metadata}
    helper.set_model_props(model, {f"catis.{key}": json.dumps(value) for key, value in content.items()})
    onnx.save(model, path)
    return path


SIZE = {"size": [96, 96], "crop_pct": 1.0, "mean": [0.0, 0.0, 0.0], "std": [1.0, 1.0, 1.0], "resize": [96, 96]}


def test_an_exported_file_alone_and_beside_its_model(photos, tmp_path):
    recipe = Recipe(catis.hosts.find(catis.apply(load_model("tiny-6"), "tome", r=8)).reduction, name="tiny-6")
    file = exported(tmp_path / "a.onnx", recipe, preprocessing=SIZE, labels=["a", "b", "c"])
    alone = load_choices([Named(str(file))])
    found = answer(alone, Photo(photos[0]), Settings("a.onnx", alone.ways("a.onnx")[0]))
    mean = np.asarray(Image.open(photos[0]).resize((96, 96))).mean() / 255
    assert found.after[0].label == "b"
    assert found.after[0].share == pytest.approx(np.exp(mean) / (np.exp(mean) + 2), abs=0.02)
    assert found.before == ()
    assert "also pass the model" in views.patches_view(found, 1)
    beside = load_choices([Named(str(file)), Named("tiny-6")])
    found = answer(beside, Photo(photos[0]), Settings("a.onnx", "as exported"))
    assert found.traced[0].removed == 8
    assert len(found.before) == 5
    assert "ONNX Runtime" in views.numbers_view(found)
    assert desk.Desk(beside, []).download(found)[0]
    labels = list(hosts.find(load_model("tiny-6")).labels)  # the zoo's models have no name of their own in a recipe
    for r, twin in (([8, 8, 8, 8, 8, 4], "tiny-6"), (8, None)):  # the second may be of either
        recipe = Recipe(catis.hosts.find(catis.apply(load_model("tiny-6"), "tome", r=r)).reduction)
        nameless = exported(tmp_path / "b.onnx", recipe, preprocessing=SIZE, labels=labels)
        both = load_choices([Named(str(nameless)), Named("tiny-6"), Named("tiny-12")])
        assert both.twin(both.models["b.onnx"]) == twin
    assert desk.Desk(alone, []).blocks("a.onnx") == 1


def test_a_transformers_folder_is_a_model_like_any_other(photos, tmp_path):
    hf = pytest.importorskip("transformers")
    config = hf.ViTConfig(
        hidden_size=32, num_hidden_layers=4, num_attention_heads=2, intermediate_size=48, image_size=64, patch_size=8,
        id2label={0: "cup", 1: "boat", 2: "egg"},
    )  # fmt: skip
    hf.ViTForImageClassification(config).eval().save_pretrained(tmp_path / "mine")
    own = load_choices([Named(str(tmp_path / "mine"))])
    (name,) = own.models
    found = answer(own, Photo(photos[0]), Settings(name, "tome", 0.6))
    assert {guess.label for guess in found.before} == {guess.label for guess in found.after} == {"cup", "boat", "egg"}
    assert found.cost.reduced <= 0.6 * found.cost.vanilla
    assert [block.tokens_left for block in found.traced] == list(found.cost.tokens)


def test_a_file_that_says_nothing_of_its_images_is_refused(tmp_path):
    with pytest.raises(ValueError, match="does not say how it wants its images"):
        onnx_model.open_onnx(exported(tmp_path / "a.onnx", None))
    (tmp_path / "b.onnx").write_text("nothing")
    with pytest.raises(ValueError, match="cannot be opened by ONNX Runtime"):
        onnx_model.open_onnx(tmp_path / "b.onnx")


def run(*arguments: object):
    return CliRunner().invoke(app, ["app", *map(str, arguments)], env={"COLUMNS": "200"})


WRONG = [
    (["--model", "tiny-7"], "model 'tiny-7' is neither in timm nor in the zoo"),
    (["--model", "tiny-6", "--model", "tiny-12", "--checkpoint", "a.pth"], "write --model NAME=FILE for each"),
    (["--model", "none.onnx"], "there is no such file"),
    (["--model", "tiny-6", "--recipe", "nowhere"], "recipe nowhere: there is no such file or folder"),
    (["--model", "tiny-6", "--images", "nowhere"], "no images in nowhere"),
    (["--model", "tiny-6", "--results", "nowhere"], "nowhere is not a folder"),
    (["--port", "99999"], "--port"),
]


@pytest.mark.parametrize(
    ("arguments", "words"), WRONG, ids=lambda value: " ".join(value) if isinstance(value, list) else ""
)
def test_what_is_wrong_is_said_before_the_page_opens(arguments, words):
    result = run(*arguments)
    assert result.exit_code == 2
    assert words in result.output
    assert "Traceback" not in result.output


def test_without_gradio_the_command_says_what_to_install(monkeypatch):
    monkeypatch.setattr("catis.errors.find_spec", lambda name: None)
    result = run()
    assert result.exit_code == 2
    assert "pip install 'catis[app]'" in result.output
