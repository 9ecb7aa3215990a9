"""From images to predictions: memory, precision, classes that count, and what is refused."""

from dataclasses import replace

import numpy as np
import pytest
import timm
import torch
from torch import nn

from catis.data.preprocessing import Preprocessing
from catis.errors import CatisError
from catis.evaluate.predict import predict
from catis.evaluate.prepared import Labels, PreparedImages
from catis.runs import DataSpec, ModelSpec, RunSpec

SPEC = RunSpec(ModelSpec("tiny-6"), DataSpec("zoo-clean"), batch_size=8)
PLAIN = Preprocessing((4, 4), mean=(0, 0, 0), std=(1, 1, 1))


class Reader(nn.Module):
    """Seven classes; the class of an image is its first byte. Keeps the sizes of batches."""

    def __init__(self, memory=1000, words="CUDA out of memory"):
        super().__init__()
        self.scale = nn.Parameter(torch.tensor(1.0))
        self.vit = timm.create_model("test_vit")  # what `predict` asks about classes; it is not run
        self.num_classes, self.memory, self.words, self.seen = 7, memory, words, []

    def forward(self, images):
        self.seen.append(len(images))
        if len(images) > self.memory:
            raise torch.OutOfMemoryError(self.words) if "CUDA" in self.words else RuntimeError(self.words)
        first = (images[:, 0, 0, 0] * 255).round()
        return -((first[:, None] - torch.arange(7)) ** 2) * self.scale


def images(n=21, scored=None, broken=()):
    pixels = np.zeros((n, 4, 4, 3), np.uint8)
    pixels[:, 0, 0, 0] = np.arange(n) % 7
    about = Labels([f"{i}.png" for i in range(n)], np.arange(n) % 7, scored, "f")
    return PreparedImages(about, pixels, dict.fromkeys(broken, "cut short"))


def test_classes_confidence_and_margin():
    said = predict(Reader(), images(), PLAIN, SPEC).predictions
    assert said.correct().all()
    assert said.top.shape == (21, 5)
    assert said.top[3].tolist() == [3, 2, 4, 1, 5] or said.top[3].tolist() == [3, 4, 2, 5, 1]
    logits = -((3 - np.arange(7.0)) ** 2)
    assert said.confidence[3] == pytest.approx(1 / np.exp(logits).sum(), rel=1e-5)
    assert said.margin[3] == pytest.approx(1.0)
    assert [said.confidence.dtype, said.margin.dtype] == [np.float32] * 2


def test_only_scored_classes_are_predicted_under_their_own_numbers():
    said = predict(Reader(), images(scored=(1, 4, 6)), PLAIN, SPEC).predictions
    assert set(said.top.reshape(-1)) == {1, 4, 6}
    assert said.top[:, 0].tolist()[:7] == [1, 1, said.top[2, 0], 4, 4, said.top[5, 0], 6]


@pytest.mark.parametrize("words", ["CUDA out of memory", "DefaultCPUAllocator: can't allocate memory: 8 GB"])
def test_batches_shrink_when_memory_runs_out_and_the_result_is_that_of_small_batches(words):
    model = Reader(memory=5, words=words)
    found = predict(model, images(), PLAIN, SPEC)
    assert found.batch_size <= 5
    assert model.seen[0] == 8
    assert len(found.predictions) == 21
    small = Reader()
    again = predict(small, images(), PLAIN, replace(SPEC, batch_size=found.batch_size))
    assert model.seen[-len(small.seen) :] == small.seen  # begun again, not gone on with
    assert np.array_equal(found.predictions.margin, again.predictions.margin)


def test_memory_that_does_not_suffice_for_one_image_or_must_not_be_retried():
    with pytest.raises(CatisError, match="even one image at a time"):
        predict(Reader(memory=0), images(), PLAIN, SPEC)
    with pytest.raises(CatisError, match=r"8 images per batch: pass --retry, or a smaller --batch-size"):
        predict(Reader(memory=5), images(), PLAIN, SPEC, retry=False)


def test_other_errors_are_not_taken_for_a_lack_of_memory():
    model = Reader(memory=5, words="shape mismatch")
    with pytest.raises(RuntimeError, match="shape mismatch"):
        predict(model, images(), PLAIN, SPEC)
    assert model.seen == [8]


def test_broken_images_are_listed_and_the_others_keep_their_labels():
    found = predict(Reader(), images(broken=(0, 8, 20)), PLAIN, SPEC)
    assert [item.name for item in found.broken] == ["0.png", "8.png", "20.png"]
    assert len(found.predictions) == 18
    assert found.predictions.correct().all()
    with pytest.raises(CatisError, match=r"0\.png: cut short; pass --on-error skip"):
        predict(Reader(), images(broken=(0,)), PLAIN, replace(SPEC, on_error="raise"))
    with pytest.raises(CatisError, match=r"none of 3 images could be read; the first: 0\.png"):
        predict(Reader(), images(3, broken=(0, 1, 2)), PLAIN, SPEC)


def test_a_batch_without_a_readable_image_is_passed_over():
    found = predict(Reader(), images(broken=range(8)), PLAIN, SPEC)
    assert found.predictions.names[0] == "8.png"


@pytest.mark.parametrize("precision", ["bfloat16", "float16", "amp", "amp-bfloat16"])
def test_every_precision_runs_and_the_model_keeps_its_own(precision):
    model = Reader()
    said = predict(model, images(), PLAIN, replace(SPEC, precision=precision)).predictions
    assert said.correct().all()
    assert model.scale.dtype == torch.float32


def test_logits_that_are_not_finite_are_an_error_and_no_prediction():
    model = Reader()
    model.scale.data.fill_(float("inf"))
    with pytest.raises(CatisError, match="not finite in float32"):
        predict(model, images(), PLAIN, SPEC)


def test_a_compiled_model_sees_one_shape_only(monkeypatch):
    monkeypatch.setattr(torch, "compile", lambda model: model)
    model = Reader()
    said = predict(model, images(), PLAIN, replace(SPEC, compile=True)).predictions
    assert model.seen == [8, 8, 8]
    assert said.correct().all()
    assert len(said) == 21


def test_a_model_without_classes_is_refused():
    model = Reader()
    model.forward = lambda images: images
    with pytest.raises(CatisError, match="Reader is no classifier"):
        predict(model, images(), PLAIN, SPEC)


def test_training_mode_comes_back_and_progress_counts_images():
    model, seen = Reader().train(), []
    predict(model, images(), PLAIN, SPEC, progress=lambda done, total: seen.append((done, total)))
    assert model.training
    assert seen == [(8, 21), (16, 21), (21, 21)]
