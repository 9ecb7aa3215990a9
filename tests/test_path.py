"""docs/path.md, from a checkpoint to a model that runs without PyTorch: its own commands, in its order, offline."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from catis.cli import app

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "docs" / "path.md").read_text()
EXAMPLE = "examples/classify_onnx.py"
SHORT = {"--minutes 5": "--minutes 0.05 --limit 60"}
"""What makes the test short."""
WITHOUT = """
import runpy, sys
for name in ("torch", "timm", "catis", "transformers"):
    sys.modules[name] = None
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
"""


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Where the page's commands have run."""
    folder = tmp_path_factory.mktemp("path")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setenv("CATIS_CACHE", str(folder / "cache"))
        patch.setenv("HF_HUB_OFFLINE", "1")
        (code,) = blocks("python")
        exec(compile(code, "path.md", "exec"), {})
        yield folder


def run(command: str) -> str:
    """What a line of the page prints."""
    for long, short in SHORT.items():
        command = command.replace(long, short)
    name, *words = shlex.split(command)
    if name == "python":  # where importing PyTorch fails
        example = ROOT / words.pop(0)
        called = [sys.executable, "-c", WITHOUT, str(example), *words]
        return subprocess.run(called, capture_output=True, text=True, check=True).stdout
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, done.output
    return done.output


def test_the_whole_way(folder):
    commands = [line for block in blocks("sh") for line in block.splitlines()]
    assert [line.split()[1] for line in commands] == ["tune", "eval", "show", "export", EXAMPLE]
    said = {line.split()[1]: run(line) for line in commands}
    assert (folder / "tuned" / "catis_recipe.json").is_file()
    assert (folder / "tuned" / "tune.html").is_file()
    rows = (folder / "judged.csv").read_text().splitlines()
    assert len(rows) == 3
    table = [dict(zip(rows[0].split(","), row.split(","), strict=False)) for row in rows[1:]]
    assert [float(row["top1"]) > 60 for row in table] == [True, True]  # of three classes: the head was fitted
    assert (folder / "layout.png").is_file()
    assert "differs from PyTorch by" in said["export"]
    answers = [line.split("\t") for line in said[EXAMPLE].splitlines()]
    assert [answer[0] for answer in answers] == ["photos/val/first/000.png", "photos/val/third/016.png"]
    assert all(0 <= int(answer[1]) < 3 and 0 < float(answer[3]) <= 1 for answer in answers)
