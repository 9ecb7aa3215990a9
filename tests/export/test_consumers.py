"""Exported files in other hands: onnxruntime alone, a web server, Triton and OpenVINO Model Server."""

from __future__ import annotations

import json
import re
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

import catis
from catis import hosts, zoo
from catis.data.images import read_image
from catis.export import export_onnx, write_layout

EXAMPLES = Path(__file__).parent.parent.parent / "examples"
WITHOUT = """
import runpy, sys
class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("torch", "catis", "timm", "torchvision"):
            raise ImportError(f"{name} is not here")
sys.meta_path.insert(0, Absent())
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
"""
TRITON = {
    "": "name backend default_model_filename max_batch_size input output instance_group dynamic_batching",
    "input": "name data_type dims",
    "output": "name data_type dims label_filename",
    "instance_group": "kind count",
    "dynamic_batching": "",
}
"""Fields of Triton's ModelConfig (triton-inference-server/common, protobuf/model_config.proto) that we write."""


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Path], list[int]]:
    """A file, photos of several shapes, and the classes that PyTorch gives them."""
    folder = tmp_path_factory.mktemp("exported")
    model = catis.apply(zoo.load("tiny-6").eval(), "catis", r=4)
    export_onnx(model, folder / "tiny.onnx")
    photos = []
    for number, (shape, (pixels, _)) in enumerate(
        zip([(96, 96), (150, 110), (101, 203), (64, 60)], zoo.dataset("clean", n=4), strict=True)
    ):
        photos.append(folder / f"{number}.png")
        Image.fromarray(np.asarray(pixels)).resize(shape).save(photos[-1])
    preprocessing = hosts.find(model).preprocessing()
    with torch.no_grad():
        logits = model(preprocessing.normalise([read_image(photo, preprocessing) for photo in photos]))
    return folder / "tiny.onnx", photos, logits.argmax(-1).tolist()


def test_onnxruntime_alone_gives_the_classes_of_pytorch(exported: tuple[Path, list[Path], list[int]]) -> None:
    path, photos, classes = exported
    call = [sys.executable, "-c", WITHOUT, str(EXAMPLES / "classify_onnx.py"), str(path), *map(str, photos)]
    done = subprocess.run(call, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    lines = [line.split("\t") for line in done.stdout.splitlines()]
    assert [int(line[1]) for line in lines] == classes
    labels = json.loads(path.with_suffix(".json").read_text())["labels"]
    assert [line[2] for line in lines] == [labels[place] if labels else f"class {place}" for place in classes]


@pytest.mark.parametrize("shape", [(96, 96), (150, 110), (101, 203), (333, 97)])
@pytest.mark.parametrize("crop_mode", ["center", "squash"])
def test_the_example_prepares_images_as_catis_does(
    shape: tuple[int, int], crop_mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(EXAMPLES)
    from dataclasses import asdict

    from classify_onnx import prepare

    from catis.data.preprocessing import Preprocessing

    ours = Preprocessing((96, 96), crop_pct=0.9, crop_mode=crop_mode)
    image = Image.fromarray(np.random.default_rng(0).integers(0, 256, (*shape, 3), dtype=np.uint8))
    theirs = prepare(image, {**asdict(ours), "resize": [106, 106]})
    np.testing.assert_allclose(theirs, ours.normalise([ours.pixels(image)]).numpy(), atol=1e-6)


def test_the_web_server_answers_on_loopback(exported: tuple[Path, list[Path], list[int]]) -> None:
    pytest.importorskip("fastapi", reason="the `test` extra has fastapi and uvicorn; without them this is NOT tested")
    path, photos, classes = exported
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    call = [sys.executable, "-m", "uvicorn", "serve_fastapi:app", "--app-dir", str(EXAMPLES), "--port", str(port)]
    server = subprocess.Popen(call, env={"MODEL": str(path), "PATH": ""}, stderr=subprocess.PIPE, text=True)
    try:
        answers = [_post(port, photo.read_bytes()) for photo in photos]
        with pytest.raises(urllib.error.HTTPError, match="415"):
            _post(port, b"no image")
    finally:
        server.terminate()
        server.communicate(timeout=30)
    assert [answer["class"] for answer in answers] == classes
    assert all(0 < answer["probability"] <= 1 for answer in answers)


def _post(port: int, body: bytes, patience: float = 120.0) -> dict:
    end = time.monotonic() + patience
    while True:
        try:
            request = urllib.request.Request(f"http://127.0.0.1:{port}/classify", body, method="POST")
            with urllib.request.urlopen(request, timeout=30) as answer:
                return json.load(answer)
        except urllib.error.HTTPError:
            raise
        except (urllib.error.URLError, ConnectionError):  # not up yet
            if time.monotonic() > end:
                raise
            time.sleep(0.2)


def fields(text: str) -> dict[str, set[str]]:
    """Names of the fields in each message of a protobuf text, by the message's name."""
    found: dict[str, set[str]] = {"": set()}
    stack = [""]
    text = re.sub(r'"[^"]*"', "0", text).replace("[ {", "{").replace("} ]", "}")
    text = re.sub(r"\[\s*{", "{", re.sub(r"}\s*\]", "}", text))
    for token in re.findall(r"\w+\s*(?=:|{)|}", text):
        if token == "}":
            stack.pop()
            continue
        name = token.strip()
        found[stack[-1]].add(name)
        if re.search(rf"\b{name}\s*{{", text) and name in TRITON:
            stack.append(name)
            found.setdefault(name, set())
    return found


def test_triton_repository(exported: tuple[Path, list[Path], list[int]], tmp_path: Path) -> None:
    path, _, _ = exported
    model = write_layout("triton", tmp_path, path, 10)
    config = (model / "config.pbtxt").read_text()
    for message, names in fields(config).items():
        assert names <= set(TRITON[message].split()), message
    assert 'name: "tiny"' in config
    assert 'backend: "onnxruntime"' in config
    assert "dims: [3, 96, 96]" in config
    assert "max_batch_size: 8" in config
    assert (model / "1" / "model.onnx").read_bytes() == path.read_bytes()
    labels = json.loads(path.with_suffix(".json").read_text())["labels"]
    assert (model / "labels.txt").read_text().splitlines() == labels


def test_openvino_model_server_repository(exported: tuple[Path, list[Path], list[int]], tmp_path: Path) -> None:
    path, _, _ = exported
    other = {"config": {"name": "other", "base_path": "/models/other"}}
    (tmp_path / "config.json").write_text(json.dumps({"model_config_list": [other]}))
    write_layout("ovms", tmp_path, path, 10)
    write_layout("ovms", tmp_path, path, 10)  # again: replaced, not doubled
    entries = json.loads((tmp_path / "config.json").read_text())["model_config_list"]
    documented = {"name", "base_path", "target_device", "batch_size", "shape", "layout", "nireq", "plugin_config"}
    assert [entry["config"]["name"] for entry in entries] == ["other", "tiny"]
    assert all(set(entry) == {"config"} and set(entry["config"]) <= documented for entry in entries)
    assert (tmp_path / "tiny" / "1" / "model.onnx").is_file()
