"""What cannot be written is refused before the first image, in every command that writes."""

import os

import pytest
import torch
from PIL import Image
from typer.testing import CliRunner

from catis.cli import COMMANDS, app
from tests.test_cli_wrong_values import BASE, folder  # noqa: F401 - a fixture

FILE = "photo.png"  # a file, where a folder would be needed
BAD = [
    ("bench", "-o", "nowhere/rows.csv"), ("bench", "-o", "rows.txt"),
    ("demo", "-o", FILE), ("demo", "-o", f"{FILE}/deep"),
    ("diagnose", "-o", "nowhere/diagnosis"),
    ("eval", "-o", "nowhere/rows.csv"), ("eval", "--store", FILE), ("eval", "--store", f"{FILE}/deep"),
    ("export", "--onnx", "nowhere/model.onnx"), ("export", "--ir", "nowhere/model.xml"),
    ("export", "--program", "nowhere/model.pt2"), ("export", "--layout=triton", "--repository", FILE),
    ("export", "--layout=triton", "--repository", f"{FILE}/deep"),
    ("report", "-o", "nowhere/report.html"), ("report", "-o", "report.pdf"),
    ("results", "-o", "nowhere/rows.csv"),
    ("show", "-o", "nowhere/figure.png"), ("show", "-o", "figure.jpg"),
    ("sweep", "--store", FILE), ("sweep", "--store", f"{FILE}/deep"),
    ("tune", "-o", FILE), ("tune", "-o", f"{FILE}/deep"),
]  # fmt: skip
CLOSED = [
    ("bench", "-o", "rows.csv"), ("diagnose", "-o", "new"), ("eval", "-o", "rows.csv"),
    ("eval", "--store", "new"), ("export", "--onnx", "new.onnx"), ("export", "--layout=triton", "--repository", "new"),
    ("report", "-o", "new.html"), ("results", "-o", "rows.csv"), ("show", "-o", "new.png"), ("sweep", "--store", "new"),
    ("tune", "-o", "new"),
]  # fmt: skip
WRITE_NOTHING = {"app", "gmacs", "methods", "recipes"}


@pytest.fixture
def idle(folder, monkeypatch):  # noqa: F811
    """The folder of wrong values, where no image is opened and no model is called."""

    def fail(*_, **__):
        pytest.fail("work was begun before the output was checked")

    monkeypatch.chdir(folder)
    monkeypatch.setattr(Image, "open", fail)
    monkeypatch.setattr(torch.nn.Module, "__call__", fail)
    return folder


def assert_refused(command, words):
    before = sorted(os.listdir())
    result = CliRunner().invoke(app, [command, *BASE[command], *words])
    assert result.exit_code == 2, (result.output, result.exception)
    assert isinstance(result.exception, SystemExit)
    assert result.stderr.strip()
    assert sorted(os.listdir()) == before
    return result.stderr


@pytest.mark.parametrize("case", BAD, ids=" ".join)
def test_a_path_that_cannot_be(case, idle):
    command, *words = case
    assert words[-1].split("/")[0].split(".")[0] in assert_refused(command, words)


@pytest.mark.parametrize("case", CLOSED, ids=" ".join)
def test_a_folder_that_is_closed(case, idle, monkeypatch):
    command, *words = case
    monkeypatch.setattr(os, "access", lambda path, mode, **_: mode != os.W_OK)
    assert "you may not write to" in assert_refused(command, words)


def test_every_command_is_tried():
    names = {command.__name__.removesuffix("_command") for command in COMMANDS}
    assert {case[0] for case in BAD} == names - WRITE_NOTHING
    assert {case[0] for case in CLOSED} == names - WRITE_NOTHING - {"demo"}  # it tries to write: tests/demo
