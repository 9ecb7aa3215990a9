"""Model repositories as Triton and OpenVINO Model Server want them, made of exported files."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any, Literal

from catis.export.contract import contract_file
from catis.files import replacing, write_whole

Layout = Literal["triton", "ovms"]
MOST_IMAGES = 8
"""Largest batch that Triton puts together where a file takes any; a choice, to be edited."""


def write_layout(layout: Layout, repository: Path, exported: Path, num_outputs: int) -> Path:
    """Put an exported file with its JSON into a model repository, as version 1 of the model of its name.

    Args:
        layout: "triton", or "ovms" for the OpenVINO Model Server.
        repository: The repository; made if it is not there.
        exported: An ONNX file, or an OpenVINO model's .xml; its JSON lies beside it.
        num_outputs: Length of the output: classes, or width of the features.

    Returns:
        The folder of the model.
    """
    content = json.loads(contract_file(exported).read_text(encoding="utf-8"))
    model = repository / exported.stem
    version = model / "1"
    version.mkdir(parents=True, exist_ok=True)
    for file in (exported, exported.with_suffix(".bin")) if exported.suffix == ".xml" else (exported,):
        with replacing(version / f"model{file.suffix}") as partial:
            shutil.copyfile(file, partial)
    write_whole(model / "catis.json", contract_file(exported).read_bytes())
    if layout == "triton":
        write_whole(model / "labels.txt", "".join(f"{label}\n" for label in content["labels"]).encode())
        write_whole(model / "config.pbtxt", _triton(exported, content, num_outputs).encode())
    else:
        write_whole(repository / "config.json", _ovms(repository, model.name).encode())
    return model


def _triton(exported: Path, content: dict[str, Any], num_outputs: int) -> str:
    """config.pbtxt: the fields of Triton's ModelConfig that a classifier of images needs."""
    free = content["input"]["shape"][0] == "batch"
    batch = MOST_IMAGES if free else 0  # with 0 the batch is one of the dims
    image = content["input"]["shape"][1:]
    dims_in = image if free else content["input"]["shape"]
    dims_out = [num_outputs] if free else [content["input"]["shape"][0], num_outputs]
    backend = "openvino" if exported.suffix == ".xml" else "onnxruntime"
    labels = '\n    label_filename: "labels.txt"' if content["labels"] else ""
    batching = "\ndynamic_batching { }" if free else ""
    return f"""name: "{exported.stem}"
backend: "{backend}"
default_model_filename: "model{exported.suffix}"
max_batch_size: {batch}
input [
  {{
    name: "{content["input"]["name"]}"
    data_type: TYPE_FP32
    dims: {dims_in}
  }}
]
output [
  {{
    name: "{content["output"]["name"]}"
    data_type: TYPE_FP32
    dims: {dims_out}{labels}
  }}
]
instance_group [ {{ kind: KIND_CPU count: 1 }} ]{batching}
"""


def _ovms(repository: Path, name: str) -> str:
    """config.json of the OpenVINO Model Server, with the models that were in it before."""
    path = repository / "config.json"
    before = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    others = [entry for entry in before.get("model_config_list", []) if entry["config"]["name"] != name]
    entry = {"config": {"name": name, "base_path": f"/models/{name}", "target_device": "CPU"}}
    return json.dumps({**before, "model_config_list": [*others, entry]}, indent=1) + "\n"
