"""`catis demo`: what it prints and leaves, and that it leaves nothing when it fails."""

import errno
import os
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

import catis.demo.settings
import catis.zoo.models
from catis.cli import app
from catis.demo import findings
from catis.demo.settings import FULL
from catis.report.folder import check_folder, marker, write_folder
from tests.demo.conftest import TINY

FILES = {
    "report.html", "numbers.json", "table.csv", "gain.svg", "accuracy.svg", "r_crit.svg", "rho_s.svg", "rho_off.svg",
    "tokens.png", marker("demo"),
}  # fmt: skip


def demo(*arguments):
    return CliRunner().invoke(app, ["demo", *map(str, arguments)])


@pytest.fixture
def tiny(monkeypatch, measured):
    """The command with the shared run in place of a minute of work."""
    monkeypatch.setattr(catis.demo.settings, "DEFAULT", TINY)
    monkeypatch.setattr(findings, "run", lambda settings, stage: measured)


def assert_refused(result, *words):
    assert result.exit_code == 2, result.output
    assert result.stderr.startswith("error: ")
    assert result.stderr.count("\n") == 1
    assert all(word in result.stderr for word in words), result.stderr


def test_tables_report_and_last_line(tiny, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = demo()
    assert result.exit_code == 0, result.output
    assert result.output.rstrip().splitlines()[-1] == f"report: {tmp_path / 'catis-demo' / 'report.html'}"
    assert {entry.name for entry in (tmp_path / "catis-demo").iterdir()} == FILES
    order = ["What one gains", "tiny-12 at one cost", "The five methods", "as in the paper?", "Now your model"]
    places = [result.output.index(words) for words in order]
    assert places == sorted(places)
    lines = result.output.splitlines()
    assert len(lines) <= 80  # two screens
    assert max(map(len, lines[:-1])) <= 82


def test_the_real_computation_from_the_command(tmp_path, monkeypatch):
    small = type(TINY)(**{**TINY.__dict__, "clean": 4, "shifted": 3, "probed": 2, "models": ("tiny-6",)})
    monkeypatch.setattr(catis.demo.settings, "QUICK", type(TINY)(**{**small.__dict__, "compared": ("tiny-6",)}))
    result = demo("--quick", "--seed", 3, "--out", tmp_path / "new")
    assert result.exit_code == 0, result.output
    assert {entry.name for entry in (tmp_path / "new").iterdir()} == FILES


def test_the_full_form_measures_shifted_limits_too(tmp_path, monkeypatch):
    small = replace(
        FULL, clean=4, shifted=3, probed=2, models=("tiny-6",), compared=("tiny-6",), methods=("catis", "tome")
    )
    monkeypatch.setattr(catis.demo.settings, "FULL", replace(small, steps=2, batch=4))
    result = demo("--full", "--out", tmp_path / "new")
    assert result.exit_code == 0, result.output
    assert "r_crit, shifted" in (tmp_path / "new" / "report.html").read_text()


def test_an_older_demo_is_replaced_and_only_at_the_end(tiny, tmp_path, monkeypatch):
    out = tmp_path / "demo"
    assert demo("--out", out).exit_code == 0
    (out / "report.html").write_text("old")
    monkeypatch.setattr(findings, "run", lambda settings, stage: (_ for _ in ()).throw(KeyboardInterrupt))
    assert demo("--out", out).exit_code == 130
    assert (out / "report.html").read_text() == "old"
    monkeypatch.undo()


def test_replacing(tiny, tmp_path):
    out = tmp_path / "demo"
    out.mkdir()
    assert demo("--out", out).exit_code == 0  # an empty folder is nobody's
    (out / "report.html").write_text("old")
    assert demo("--out", out).exit_code == 0
    assert (out / "report.html").read_text() != "old"
    assert os.listdir(tmp_path) == ["demo"]


def test_ctrl_c_leaves_nothing(tmp_path, monkeypatch):
    def interrupted(settings, stage):
        raise KeyboardInterrupt

    monkeypatch.setattr(findings, "run", interrupted)
    result = demo("--out", tmp_path / "demo")
    assert result.exit_code == 130
    assert "stopped; nothing was written" in result.stderr
    assert os.listdir(tmp_path) == []


def test_ctrl_c_in_the_middle_of_the_work_ends_the_workers(tmp_path):
    """Interrupted from the progress report, between passes: the pool ends and nothing hangs."""
    shares = []

    def stage(what, share):
        shares.append(share)
        if what == "r_crit, rho_s and rho_off":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        findings.run(TINY, stage)
    assert 0 < shares[-1] < 1


@pytest.mark.parametrize("seed", ["-1", "text", "4294967296", "1.5"])
def test_bad_seeds(tmp_path, seed):
    result = demo(f"--seed={seed}", "--out", tmp_path / "demo")
    assert result.exit_code == 2
    assert "--seed" in result.stderr
    assert os.listdir(tmp_path) == []


def test_quick_and_full(tmp_path):
    assert_refused(demo("--quick", "--full", "--out", tmp_path / "demo"), "--quick and --full")


def never(settings, stage):
    raise AssertionError("computed before the folder was checked")


def test_outputs_that_cannot_be_written_are_refused_before_any_work(tmp_path, monkeypatch):
    monkeypatch.setattr(findings, "run", never)
    (tmp_path / "file").write_text("mine")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.tex").write_text("years of work")
    assert_refused(demo("--out", tmp_path / "file"), "it is a file")
    assert_refused(demo("--out", tmp_path / "mine"), "thesis.tex", "did not write")
    assert_refused(demo("--out", tmp_path / "no" / "demo"), "there is no folder")
    assert_refused(demo("--out", tmp_path / "file" / "demo"), "there is no folder")
    monkeypatch.chdir(tmp_path / "mine")
    assert_refused(demo("--out", "."), "the folder you are in")
    assert sorted(os.listdir(tmp_path)) == ["file", "mine"]


def test_a_demo_folder_with_something_added_is_refused(tmp_path):
    out = tmp_path / "demo"
    write_folder(out, {"report.html": b"x"}, "demo")
    check_folder(out, "demo")
    (out / "notes.txt").write_text("mine")
    with pytest.raises(ValueError, match=r"holds notes\.txt"):
        check_folder(out, "demo")


def test_a_folder_without_permission(tmp_path, monkeypatch):
    def refuse(self, *args, **kwargs):
        raise PermissionError(errno.EACCES, "Permission denied", str(self))

    monkeypatch.setattr(findings, "run", never)
    monkeypatch.setattr(Path, "mkdir", refuse)  # tests may run as root, whom no permission stops
    assert_refused(demo("--out", tmp_path / "demo"), "cannot write into", "Permission denied")


def test_a_full_disk_leaves_the_old_folder_and_nothing_else(tiny, tmp_path, monkeypatch):
    out = tmp_path / "demo"
    write_folder(out, {"report.html": b"old"}, "demo")
    real = Path.write_bytes

    def full(self, data):
        if self.name == "rho_s.svg":
            raise OSError(errno.ENOSPC, "No space left on device", str(self))
        return real(self, data)

    monkeypatch.setattr(Path, "write_bytes", full)
    assert_refused(demo("--out", out), "No space left on device", "nothing was left behind")
    assert os.listdir(tmp_path) == ["demo"]
    assert (out / "report.html").read_bytes() == b"old"


def test_a_rename_that_fails_brings_the_old_folder_back(tmp_path, monkeypatch):
    out = tmp_path / "demo"
    write_folder(out, {"report.html": b"old"}, "demo")
    real = Path.rename

    def rename(self, target):
        if self.name.endswith(".part"):
            raise OSError(errno.EIO, "Input/output error")
        return real(self, target)

    monkeypatch.setattr(Path, "rename", rename)
    with pytest.raises(OSError, match="Input/output error"):
        write_folder(out, {"report.html": b"new"}, "demo")
    assert os.listdir(tmp_path) == ["demo"]
    assert (out / "report.html").read_bytes() == b"old"


@pytest.mark.parametrize("damage", ["missing", "cut", "other"])
def test_damaged_or_missing_weights(tmp_path, monkeypatch, damage):
    weights = tmp_path / "zoo" / "weights"
    shutil.copytree(Path(catis.zoo.models.__file__).parent / "weights", weights)
    file = weights / "tiny-24.safetensors"
    if damage == "missing":
        file.unlink()
    else:
        content = file.read_bytes()
        file.write_bytes(content[:1000] if damage == "cut" else content[:-1] + bytes([content[-1] ^ 1]))
    monkeypatch.setattr(catis.zoo.models, "files", lambda package: tmp_path / "zoo")
    result = demo("--quick", "--out", tmp_path / "demo")
    assert_refused(result, "tiny-24.safetensors", "pip install --force-reinstall catis")
    assert os.listdir(tmp_path) == ["zoo"]


def test_help_teaches():
    result = demo("--help")
    assert result.exit_code == 0
    for words in ("--quick", "--full", "--seed", "--out", "r_crit", "Example", "report.html"):
        assert words in result.output, words
