"""The shipped models: they load, they can see, and a damaged file is named."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import torch
from timm.models.vision_transformer import VisionTransformer

from catis import zoo
from catis.zoo import models

NAMES = zoo.list_models()


@torch.inference_mode()
def accuracy(model: VisionTransformer, data: zoo.ZooDataset) -> float:
    return sum(float((model(x).argmax(1) == y).sum()) for x, y in data.batches(96)) / len(data)


@pytest.mark.parametrize("name", NAMES)
def test_loads_as_a_plain_timm_model_that_can_see(name: str) -> None:
    model = zoo.load(name)
    assert type(model) is VisionTransformer
    assert not model.training
    assert len(model.blocks) == models.DEPTHS[name]
    assert all(p.dtype == torch.float32 for p in model.parameters())
    card = zoo.cards()[name]["views"]["clean"]
    # 288 images: three standard errors of the card's accuracy are about 5 points.
    assert accuracy(model, zoo.dataset("clean", n=288, seed=1)) > card["accuracy"] - 0.06


def test_shift_hurts() -> None:
    views = zoo.cards()["tiny-6"]["views"]
    assert all(views[view]["accuracy"] < views["clean"]["accuracy"] - 0.03 for view in ("hard", "renditions", "sketch"))
    model = zoo.load("tiny-6")
    assert accuracy(model, zoo.dataset("hard", n=192, seed=1)) < views["clean"]["accuracy"] - 0.03


def test_cards_say_what_was_measured() -> None:
    for card in zoo.cards().values():
        assert card["seconds"] > 0
        assert card["recipe"]
        assert all(0 <= view["accuracy"] <= 1 and view["n"] >= 500 for view in card["views"].values())


def test_all_weights_together_are_small() -> None:
    folder = Path(models.__file__).parent / "weights"
    assert sum(file.stat().st_size for file in folder.iterdir()) < 25e6


def test_unknown_name() -> None:
    with pytest.raises(ValueError, match="zoo model 'huge': expected one of tiny-6"):
        zoo.load("huge")


@pytest.fixture
def broken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the weights folder that may be damaged."""
    source = Path(models.__file__).parent / "weights"
    folder = tmp_path / "weights"
    folder.mkdir()
    for file in ("cards.json", "tiny-6.safetensors"):
        shutil.copy(source / file, folder / file)
    monkeypatch.setattr(models, "files", lambda package: tmp_path)
    return folder


def test_damaged_file_is_named(broken: Path) -> None:
    target = broken / "tiny-6.safetensors"
    data = bytearray(target.read_bytes())
    data[-1] ^= 1
    target.write_bytes(data)
    expected = json.loads((broken / "cards.json").read_text())["tiny-6"]["sha256"]
    with pytest.raises(zoo.WeightsError, match=rf"tiny-6.safetensors is damaged: expected sha256 {expected}, found"):
        zoo.load("tiny-6")


def test_missing_file_is_named(broken: Path) -> None:
    (broken / "tiny-6.safetensors").unlink()
    with pytest.raises(zoo.WeightsError, match=r"cannot read .*tiny-6.safetensors: No such file"):
        zoo.load("tiny-6")
    (broken / "cards.json").unlink()
    with pytest.raises(zoo.WeightsError, match=r"cannot read .*cards.json: No such file"):
        zoo.list_models()


def test_the_page_prints_the_cards() -> None:
    page = Path(__file__).parents[2] / "docs" / "zoo.md"
    if not page.exists():
        pytest.skip("no docs in this checkout")
    text = page.read_text()
    for name, card in zoo.cards().items():
        row = next(line for line in text.splitlines() if line.startswith(f"| {name} |"))
        assert all(f"{view['accuracy']:.1%} ({view['n']})" in row for view in card["views"].values())
