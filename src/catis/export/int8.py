"""An int8 file of a reduced model, judged on images that it was not calibrated on before it is called done."""

from __future__ import annotations

import copy
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from catis import hosts
from catis.api import remove
from catis.errors import CatisError
from catis.export.check import Runner
from catis.export.held_out import Split
from catis.export.onnx_file import convert
from catis.export.quantise import quantise_onnx, quantise_openvino
from catis.export.runtimes import openvino_runner, ort_runner

__all__ = ["ONNX_RUNTIME", "OPENVINO", "Agreement", "AgreementError", "Int8Maker", "judge_int8"]

Classes = NDArray[np.int64]
Tell = Callable[[str], None]


class AgreementError(CatisError):
    """int8 changes more answers than was allowed; it was not written."""


@dataclass(frozen=True)
class Agreement:
    """Shares of the held-out images that get the class that vanilla gives them in float.

    Attributes:
        n: Held-out images.
        reduced: Reduced model in float.
        vanilla_int8: Vanilla model in int8.
        reduced_int8: Reduced model in int8.
        products: Products of the reduced model that became int8.
    """

    n: int
    reduced: float
    vanilla_int8: float
    reduced_int8: float
    products: int

    @property
    def drop(self) -> float:
        """Points that int8 loses against its own float form."""
        return 100 * (self.reduced - self.reduced_int8)


@dataclass(frozen=True)
class Int8Maker:
    """A quantiser with the runtime that its files are for.

    Attributes:
        quantise: Writes the int8 form of a float ONNX file and says how many products it has.
        run: Runs what was written.
        ending: Of what is written.
    """

    quantise: Callable[[Path, Path, Sequence[NDArray[np.float32]], int], int]
    run: Callable[[Path], Runner]
    ending: str


ONNX_RUNTIME = Int8Maker(quantise_onnx, ort_runner, ".onnx")
OPENVINO = Int8Maker(quantise_openvino, openvino_runner, ".xml")


def judge_int8(
    model: nn.Module,
    float_file: Path,
    target: Path,
    images: Split,
    maker: Int8Maker,
    *,
    batch: int | None = None,
    max_drop: float = 2.0,
    tell: Tell = lambda what: None,
) -> Agreement:
    """Write an int8 form of an exported file and compare its classes with vanilla's, reduced and not.

    Args:
        model: The reduced model that was exported, a classifier.
        float_file: Its ONNX file.
        target: What to write; the caller takes it away when this raises.
        images: To calibrate on, and to judge by.
        maker: Quantiser and runtime.
        batch: Images that the file takes at once; None where that is free.
        max_drop: Most points of agreement that int8 may lose against the float form of the same model.
        tell: Told what is going on.

    Raises:
        AgreementError: It loses more.
    """
    if not hosts.find(model).num_classes:
        raise ValueError(f"{type(model).__name__} is no classifier: int8 is judged by classes, so it is for those only")
    tell("calibrating the reduced model")
    products = maker.quantise(float_file, target, images.calibration, batch or 1)
    tell("judging")
    vanilla = remove(copy.deepcopy(model))
    truth = _classes(_torch_runner(vanilla), images.held_out, batch)
    found = Agreement(
        n=len(truth),
        reduced=_share(truth, _classes(_torch_runner(model), images.held_out, batch)),
        vanilla_int8=_share(truth, _vanilla_int8(vanilla, images, maker, batch, tell)),
        reduced_int8=_share(truth, _classes(maker.run(target), images.held_out, batch)),
        products=products,
    )
    if found.drop > max_drop:
        raise AgreementError(
            f"int8 agrees with vanilla on {found.reduced_int8:.1%} of {found.n} held-out images, its own float form on "
            f"{found.reduced:.1%}: {found.drop:.1f} points lost, more than {max_drop:g}; it was not written. Vanilla's "
            f"own int8 agrees on {found.vanilla_int8:.1%}. Remove fewer tokens, give more images to calibrate on, or "
            "raise --max-drop if that is acceptable to you"
        )
    return found


def _vanilla_int8(vanilla: nn.Module, images: Split, maker: Int8Maker, batch: int | None, tell: Tell) -> Classes:
    """Classes of the vanilla model in int8, made in the same way."""
    tell("exporting and calibrating vanilla, to compare")
    with tempfile.TemporaryDirectory() as folder:
        path, quantised = Path(folder) / "vanilla.onnx", Path(folder) / f"int8{maker.ending}"
        shape = None if batch is None else hosts.find(vanilla).example_shape(batch)
        convert(vanilla, path, shape, batch is None)
        maker.quantise(path, quantised, images.calibration, batch or 1)
        return _classes(maker.run(quantised), images.held_out, batch)


def _torch_runner(model: nn.Module) -> Runner:
    handle = hosts.find(model)

    @torch.no_grad()
    def run(pixels: Any) -> Any:
        return handle.logits(model(pixels))

    return run


def _classes(run: Runner, images: Sequence[NDArray[np.float32]], batch: int | None) -> Classes:
    """The class of every image, in batches of the size that the file takes."""
    size, found = batch or 8, []
    for start in range(0, len(images), size):
        some = list(images[start : start + size])
        filled = some + [some[-1]] * (size - len(some) if batch else 0)
        logits = np.asarray(run(torch.from_numpy(np.concatenate(filled))))
        found.append(logits[: len(some)].argmax(-1))
    return np.concatenate(found)


def _share(truth: Classes, given: Classes) -> float:
    return float((truth == given).mean())
