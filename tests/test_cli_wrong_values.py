"""Every option of every command with wrong values: a sentence and exit code 2, never a traceback."""

from inspect import signature
from typing import get_args, get_type_hints

import pytest
from PIL import Image
from typer.models import OptionInfo, ParameterInfo
from typer.testing import CliRunner

from catis.cli import COMMANDS, app
from catis.runs import Store

BASE = {
    "app": [],
    "bench": ["tiny-6", "--batch-size", "1", "--num-bench-iter", "1"],
    "demo": ["--quick"],
    "diagnose": ["tiny-6", "--data", "."],
    "eval": ["tiny-6", "--data", "zoo-clean", "-n", "24", "-m", "catis", "-r", "4"],
    "export": ["tiny-6", "--onnx", "model.onnx", "-r", "4"],
    "gmacs": ["tiny-6", "-r", "4"],
    "methods": [],
    "recipes": [],
    "report": ["store"],
    "results": ["store"],
    "show": ["photo.png", "--model", "tiny-6"],
    "sweep": ["plan.toml"],
    "tune": ["tiny-6", "--data", ".", "--budget", "0.5", "--minutes", "0.01"],
}
PLAN = """
r = 4
methods = ["tome"]
data = ["zoo-clean"]
models.small.name = "tiny-6"
"""
WRONG = {
    "--against": ["nobody"],
    "--after": ["x", "0"],
    "--amp-dtype": ["float8"],
    "--batch-size": ["x", "0"],
    "--checkpoint": ["none.safetensors", "weights.ckpt", "none.pth"],
    "--class-map": ["nowhere.txt"],
    "--controls": ["magic"],
    "--corruption": ["rain"],
    "--data": ["nope", "zoo-nope"],
    "--device": ["tpu", "cuda:99", "meta"],
    "--host": ["no such host"],
    "--images": ["nowhere"],
    "--img-size": ["0", "1", "x"],
    "--interpolation": ["foo"],
    "--ir": ["nowhere/model.xml", "model.bin"],
    "--layout": ["torchserve"],
    "--mean": ["x"],
    "--method": ["topk"],
    "--model": ["tiny-7"],
    "--model-dtype": ["int8"],
    "--model-kwargs": ["depth", "nonsense=1"],
    "--only": ["nothing*"],
    "--max-drop": ["x", "-1"],
    "--onnx": ["nowhere/model.onnx", "."],
    "--option": ["tau", "tau=x", "tau=none", "nope=1", "l_start=0.5", "strategy=3"],
    "--output": ["nowhere/deep/file.png"],
    "--preset": ["ours"],
    "--program": ["nowhere/model.pt2"],
    "--recipe": ["nowhere.json"],
    "--repository": ["somewhere"],
    "--results": ["nowhere"],
    "--runtime": ["tensorrt"],
    "--seed": ["x", "-1"],
    "--skip": ["*"],
    "--sql": ["SELECT nonsense"],
    "--std": ["x"],
    "--store": ["photo.png"],
    "--threads": ["0", "100000"],
    "--vanilla": ["nowhere.onnx"],
    "--with": ["nowhere.onnx"],
    "--without": ["magic"],
    "-r": ["many", "-3", "1,2", "8:-7", "nan", "0.5,0.5"],
}
ANY = {"--cache", "--ray", "--help"}
"""A cache that cannot be written costs time and is no error; a cluster is looked for when the plan has been read."""
PATTERNS = {("results", "--data"), ("results", "--method"), ("results", "--model")}
"""Anything may be looked for in a store, and nothing is an answer."""


def options(command):
    """Spellings and type of every option of a command that takes a value."""
    hints = get_type_hints(command, include_extras=True)
    for name, parameter in signature(command).parameters.items():
        hint = parameter.annotation if hints.get(name) is None else hints[name]
        info = next(part for part in get_args(hint) if isinstance(part, ParameterInfo))
        if isinstance(info, OptionInfo) and "bool" not in str(get_args(hint)[0]):
            words = (info.default, *(info.param_decls or ()))  # typer keeps the first name as the default
            spellings = [word for word in words if isinstance(word, str) and word.startswith("-")]
            yield spellings or [f"--{name.replace('_', '-')}"], str(get_args(hint)[0])


def cases():
    for command in COMMANDS:
        name = command.__name__.removesuffix("_command")
        for spellings, kind in options(command):
            option = next((word for word in spellings if word in WRONG), spellings[0])
            if option in ANY or (name, option) in PATTERNS:
                continue
            usual = ["x"] if any(word in kind for word in ("int", "float", "Literal")) else [None]
            for value in WRONG.get(option, usual):
                yield pytest.param(name, option, value, id=f"{name} {option} {value}")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wrong")
    Image.new("RGB", (32, 32)).save(folder / "photo.png")
    (folder / "plan.toml").write_text(PLAN)
    Store(folder / "store")
    return folder


@pytest.mark.parametrize(("command", "option", "value"), list(cases()))
def test_wrong_values_are_sentences(command, option, value, folder, monkeypatch):
    assert value is not None, f"no wrong value is known for {option} of catis {command}: add it to WRONG"
    monkeypatch.chdir(folder)
    wrong = f"{option}={value}" if option.startswith("--") else f"{option}{value}"
    result = CliRunner().invoke(app, [command, *BASE[command], wrong])
    assert result.exit_code == 2, (result.output, result.exception)
    assert isinstance(result.exception, SystemExit)
    assert "Traceback" not in result.stderr
    assert result.stderr.strip()


def test_every_option_is_walked():
    assert len(list(cases())) > 100
