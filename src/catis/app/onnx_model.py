"""A file that `catis export` wrote, run by ONNX Runtime from what stands in its own metadata."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from catis.data.preprocessing import Preprocessing
from catis.errors import require
from catis.export.contract import PREFIX
from catis.export.runtimes import RuntimeLoadError, ort_session
from catis.recipes import Recipe


@dataclass(frozen=True)
class OnnxModel:
    """An exported model."""

    path: Path
    preprocessing: Preprocessing  # how it wants its images
    labels: tuple[str, ...]  # what its classes are called; empty if nobody said
    recipe: Recipe | None  # what was on the model when it was exported; None if it was vanilla
    session: Any  # of ONNX Runtime

    def logits(self, images: NDArray[np.float32]) -> NDArray[np.float32]:
        """(B, classes) of (B, 3, H, W) prepared images."""
        (output,) = self.session.run(None, {self.session.get_inputs()[0].name: images})
        return np.asarray(output)


def open_onnx(path: Path) -> OnnxModel:
    """Open a file and read how it wants its images."""
    require("an ONNX file", "export", "onnxruntime")
    if not path.is_file():
        raise ValueError(f"{path}: there is no such file")
    try:
        session = ort_session(path)
    except RuntimeLoadError as error:
        said = str(error.__cause__).splitlines()[0]
        raise ValueError(f"{path} cannot be opened by ONNX Runtime: {said}") from error
    known = session.get_modelmeta().custom_metadata_map
    metadata = {key.removeprefix(PREFIX): json.loads(known[key]) for key in known if key.startswith(PREFIX)}
    if "preprocessing" not in metadata:
        raise ValueError(f"{path} does not say how it wants its images: write it with `catis export` of this version")
    recipe = metadata.get("recipe")
    return OnnxModel(
        path,
        _preprocessing(metadata["preprocessing"]),
        tuple(metadata.get("labels", ())),
        None if recipe is None else Recipe.from_json(recipe, str(path)),
        session,
    )


def _preprocessing(content: Mapping[str, Any]) -> Preprocessing:
    """Of what the metadata says, the fields that we know; lists are tuples again, so that it can be a key."""
    names = {field.name for field in fields(Preprocessing)}
    known: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value for name, value in content.items()
    }
    return Preprocessing(**{name: value for name, value in known.items() if name in names})
