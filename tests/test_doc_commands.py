"""Commands of README and docs are run as they stand, with a small model and small folders in place of the reader's.

What cannot run offline, or is run by another test, stands in `ELSEWHERE` with the reason; `pytest -m slow` runs those
that take long, and prints the sweep of docs/sweeps.md again.
"""

import re
import shutil
from pathlib import Path

import pytest
from PIL import Image
from safetensors.torch import save_file
from typer.testing import CliRunner

import catis
import catis.zoo
from catis.cli import app
from tests.test_doc_numbers import page
from tests.test_docs import COMMANDS

MODEL = "tiny-6"
ELSEWHERE = {
    "app": "it serves until it is stopped: tests/app",
    "demo": "tests/demo, and CI runs `catis demo` itself",
    "--ray": "tests/sweep/test_ray.py",
    "plans/table1.toml": "needs ImageNet; tests/sweep/test_plans.py reads the plan",
    "plans/$plan.toml": "needs ImageNet and real weights; tests/sweep/test_plans.py reads the plans",
    "zoo.toml": "test_the_sweep_of_the_page",
    "ucf101=UCF-101": "tests/evaluate/test_video.py",
    "cuda": "there is no GPU",
    "--torchcompile": "minutes of compiling; tests/hosts/test_life.py",
    "google/vit-base-patch16-224": "fetched from the hub",
    "my-finetuned-vit": "a folder of transformers: tests/test_models_hf.py",
    "mine.pth.tar": "tests/test_path.py",
    "0.01": "refused, as the page shows: tests/test_doc_numbers.py",
}
STANDS_IN = {
    r"(deit|vit)_\w+_patch16_\d+": MODEL, r"NAME": MODEL,
    r"\S+=(/data/\w+|FOLDER)": "zoo-clean", r"best|tuned": "OUT/0.6",
    r"runs/table1": "table1",
}  # fmt: skip
"""What a word is taken for; files and folders that are not here are made by the fixture, under their own names."""
SMALL = {
    "eval": ["-n", "24"], "show": [], "gmacs": [], "recipes": [], "results": [], "report": [], "diagnose": ["-n", "4"],
    "tune": ["--minutes", "0.02", "-n", "24"], "export": [], "bench": ["--batch-size", "1", "--num-bench-iter", "1"],
}  # fmt: skip
SLOW = ("tune", "export", "bench")


def reason(words: list[str]) -> str | None:
    """Why a command is not run here; None if it is."""
    return next((why for word, why in ELSEWHERE.items() if word in words), None)


def rehearsed(words: list[str]) -> list[str]:
    """The command with stand-ins for what the reader has."""
    if words[0] == "gmacs":  # needs no weights
        return words
    words = [next((stand for known, stand in STANDS_IN.items() if re.fullmatch(known, word)), word) for word in words]
    if words[0] == "tune":
        words[words.index("-o") + 1] = "found"
    return [*words, *SMALL[words[0]]]


def cases():
    """Every command once, however many pages have it."""
    seen: dict[tuple[str, ...], str] = {}
    for name, words in COMMANDS:
        if reason(words) is None:
            seen.setdefault(tuple(rehearsed(words)), name)
    for words, name in seen.items():
        marks = [pytest.mark.slow] if words[0] in SLOW else []
        yield pytest.param(list(words), id=f"{name}-{' '.join(words)}", marks=marks)


def run(*words: object) -> str:
    done = CliRunner().invoke(app, [str(word) for word in words], env={"COLUMNS": "200"})
    assert done.exit_code == 0, (done.output, done.exception)
    return done.output


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """What the reader has: photos, weights, a recipe, a results store, and another table to join with it."""
    folder = tmp_path_factory.mktemp("reader")
    pictures = catis.zoo.dataset("clean", split="test", n=24)
    for name in ("photos", "IMAGES", "FOLDER"):
        for index in range(len(pictures)):
            image, label = pictures[index]
            home = folder / name / f"{label:02}"
            home.mkdir(parents=True, exist_ok=True)
            Image.fromarray(image).save(home / f"{index}.png")
    shutil.copy(next((folder / "photos").rglob("*.png")), folder / "photo.png")
    model = catis.zoo.load(MODEL)
    for name in ("deit_tiny", "deit_tiny_patch16_224"):
        save_file(model.state_dict(), folder / f"{name}.safetensors")
    catis.save_recipe(catis.apply(model, "tome", budget=0.6), folder / "OUT" / "0.6")
    (folder / "results-imagenet.csv").write_text(f"model,top1\n{MODEL},50\n")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setenv("CATIS_CACHE", str(folder / "cache"))
        patch.setenv("HF_HUB_OFFLINE", "1")
        run("eval", MODEL, "--data", "zoo-clean", "-n", 24, "-m", "tome", "-r", 13, "--store", "runs")
        shutil.copytree(folder / "runs", folder / "table1")
        yield folder


def export_what_is_timed(words: list[str]) -> None:
    """Files that a command before this one wrote on the page: tests run in any order."""
    for file in map(Path, words):
        if words[0] == "bench" and file.suffix == ".onnx" and not file.exists():
            run("export", MODEL, "-r", 0 if "vanilla" in file.stem else 3, "--onnx", file)


@pytest.mark.parametrize("words", list(cases()))
def test_commands_of_the_pages_run(words, folder):
    export_what_is_timed(words)
    before = {file: file.stat().st_mtime_ns for file in folder.rglob("*")}
    said = run(*words)
    assert said.strip()
    for flag in ("-o", "--onnx"):
        if flag in words:
            written = folder / words[words.index(flag) + 1]
            assert written.exists()
            assert before.get(written) != written.stat().st_mtime_ns


def test_most_commands_are_run():
    """A reason that fits no command any more goes; a command without one is run."""
    assert all(any(word in words for _, words in COMMANDS) for word in ELSEWHERE)
    assert sum(reason(words) is None for _, words in COMMANDS) > 0.55 * len(COMMANDS)


@pytest.mark.slow
def test_the_sweep_of_the_page(tmp_path, monkeypatch):
    """Its lines come out again, but for the seconds."""
    monkeypatch.chdir(tmp_path)
    text = page("docs/sweeps.md")
    (plan,) = re.findall(r"```toml\n(# zoo.toml.*?)```", text, re.DOTALL)
    (tmp_path / "zoo.toml").write_text(plan)
    shown = re.findall(r"^(\d/7 .* GMACs), [\d.]+ s$", text, re.MULTILINE)
    assert len(shown) == 4
    said = run("sweep", "zoo.toml", "--store", "store", "--only", "*zoo-clean")
    assert [line for line in shown if line not in said] == []
