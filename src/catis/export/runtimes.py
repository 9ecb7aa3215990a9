"""The runtimes that exported files are run in here: ONNX Runtime and OpenVINO, on the CPU."""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from catis.errors import CatisError
from catis.export.check import Runner
from catis.export.contract import INPUT


class RuntimeLoadError(CatisError):
    """A runtime cannot load an exported file, or not run it; the message has what it said."""


def ort_runner(path: Path, threads: int | None = None) -> Runner:
    """Run a file in ONNX Runtime."""
    session = ort_session(path, threads)
    return lambda pixels: session.run(None, {INPUT: pixels.numpy()})[0]


def ort_session(path: Path, threads: int | None = None, profile: Path | None = None) -> Any:
    """A session with as many threads as asked for, and no remarks on the terminal.

    Args:
        path: The file.
        threads: Threads; as many as there are cores by default.
        profile: Start of the name of a file for ONNX Runtime's profile; None for none.
    """
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    options.intra_op_num_threads = threads or 0
    options.add_session_config_entry("session.force_spinning_stop", "1")  # idle threads must not disturb who runs next
    if profile is not None:
        options.enable_profiling, options.profile_file_prefix = True, str(profile)
    with _loading("ONNX Runtime", path):
        return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def openvino_runner(path: Path, threads: int | None = None, precision: str = "f32", batch: int | None = None) -> Runner:
    """Run a file in OpenVINO; in float32 unless asked otherwise, which is not its default everywhere."""
    with _loading("OpenVINO", path):
        compiled = openvino_model(path, openvino_settings(threads, precision), batch)
    return lambda pixels: compiled(pixels.numpy())[0]


def openvino_model(path: Path, settings: Mapping[str, str], batch: int | None = None) -> Any:
    """A file compiled by OpenVINO for this machine.

    Args:
        path: The file.
        settings: Of OpenVINO.
        batch: What a free batch is taken for: OpenVINO works out all shapes again in every pass where it is free, which
            takes as long as a quarter of a small reduced model. None to leave it free.
    """
    core: Any = importlib.import_module("openvino").Core()
    model = core.read_model(path)
    shape = model.input(0).get_partial_shape()
    if batch is not None and shape[0].is_dynamic:
        model.reshape([batch, *(side.get_length() for side in list(shape)[1:])])
    return core.compile_model(model, "CPU", settings)


def openvino_settings(threads: int | None = None, precision: str = "f32") -> dict[str, str]:
    """How OpenVINO compiles a file here: one pass at a time, as fast as it can be."""
    settings = {"INFERENCE_PRECISION_HINT": precision, "PERFORMANCE_HINT": "LATENCY"}
    return settings if threads is None else {**settings, "INFERENCE_NUM_THREADS": str(threads)}


def program_runner(path: Path) -> Runner:
    """Run a torch.export program in PyTorch."""
    with _loading("PyTorch", path):
        program = torch.export.load(path).module()

    @torch.no_grad()
    def run(pixels: Tensor) -> Any:
        return program(pixels)

    return run


def runtime_errors() -> tuple[type[BaseException], ...]:
    """What the runtimes raise; ONNX Runtime's own classes have no common base but Exception."""
    own = vars(importlib.import_module("onnxruntime.capi.onnxruntime_pybind11_state")).values()
    return (
        RuntimeError,
        ValueError,
        KeyError,
        TypeError,
        *(kind for kind in own if isinstance(kind, type) and issubclass(kind, Exception)),
    )


@contextmanager
def _loading(runtime: str, path: Path) -> Iterator[None]:
    try:
        yield
    except runtime_errors() as error:
        said = " ".join(str(error).split())[:400]
        raise RuntimeLoadError(f"{runtime} cannot load {path.name}: {said}") from error
