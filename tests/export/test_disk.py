"""A disk that is full, before or while a file is written: a sentence, exit code 2, and no half file."""

from __future__ import annotations

import sys
from collections import namedtuple
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from catis.cli import app
from catis.export import disk
from catis.export.onnx_file import convert
from catis.export.quantise import quantise_onnx, quantise_openvino
from tests.hosts.hf_models import build

LEAST = 20_000
"""Bytes below any weights here."""


@contextmanager
def files_of_at_most(size: int) -> Iterator[None]:
    """Let every write beyond a size fail midway, as on a full disk."""
    resource = pytest.importorskip("resource")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("saved")
    build("ViTForImageClassification").save_pretrained(folder)
    return folder


@pytest.mark.skipif(sys.platform == "win32", reason="a limit on file sizes is set by the resource module")
@pytest.mark.parametrize("target", ["--onnx m.onnx", "--ir m.xml", "--program m.pt2"])
def test_a_write_that_fails_midway(target: str, saved: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with files_of_at_most(LEAST):
        found = CliRunner().invoke(app, ["export", str(saved), "-m", "tome", "-r", "2", *target.split()])
    assert found.exit_code == 2, found.exception
    assert "error:" in found.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(sys.platform == "win32", reason="a limit on file sizes is set by the resource module")
@pytest.mark.parametrize(("quantise", "name"), [(quantise_onnx, "int8.onnx"), (quantise_openvino, "int8.xml")])
def test_an_int8_file_that_does_not_fit(quantise, name: str, tmp_path: Path) -> None:
    convert(build("ViTForImageClassification"), tmp_path / "float.onnx")
    images = [np.random.default_rng(0).normal(size=(1, 3, 32, 32)).astype(np.float32)] * 2
    with files_of_at_most(LEAST), pytest.raises(OSError, match=r"written|large"):
        quantise(tmp_path / "float.onnx", tmp_path / name, images)


def test_too_little_room_is_said_before_the_model_is_exported(
    saved: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = namedtuple("usage", "free")
    monkeypatch.setattr(disk.shutil, "disk_usage", lambda folder: usage(1000))
    found = CliRunner().invoke(app, ["export", str(saved), "-r", "2", "--onnx", str(tmp_path / "m.onnx")])
    assert found.exit_code == 2
    assert "MB left, and the export needs about" in found.stderr
    assert list(tmp_path.iterdir()) == []
