"""An int8 file of a reduced model, judged on images that it was not calibrated on before it is called done."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
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

Classes = NDArray[np.int64]
Tell = Callable[[str], None]


class AgreementError(CatisError):
    """int8 changes more answers than was allowed; it was not written."""


@dataclass(frozen=True)
class Agreement:
    """Shares of the held-out images that get the class that vanilla gives them in float."""

    n: int  # held-out images
    reduced: float  # reduced model in float
    vanilla_int8: float  # vanilla model in int8
    reduced_int8: float  # reduced model in int8
    products: int  # products of the reduced model that became int8

    @property
    def drop(self) -> float:
        """Points that int8 loses against its own float form."""
        return 100 * (self.reduced - self.reduced_int8)


@dataclass(frozen=True)
class Int8Maker:
    """A quantiser with the runtime that its files are for."""

    # Writes the int8 form of a float ONNX file and says how many products it has.
    quantise: Callable[[Path, Path, Sequence[NDArray[np.float32]], int], int]
    run: Callable[[Path], Runner]  # runs what was written
    ending: str  # of what is written


ONNX_RUNTIME = Int8Maker(quantise_onnx, ort_runner, ".onnx")
OPENVINO = Int8Maker(quantise_openvino, openvino_runner, ".xml")


class Judge:
    """Compares int8 forms of a model with what it and its vanilla model answer in float, which is worked out once.

    Args:
        model: The reduced model that was exported, a classifier.
        float_file: Its ONNX file.
        images: To calibrate on, and to judge by.
        folder: For vanilla's files.
        batch: Images that the files take at once; None where that is free.
        tell: Told what is going on.
    """

    def __init__(
        self, model: nn.Module, float_file: Path, images: Split, folder: Path, batch: int | None, tell: Tell
    ) -> None:
        if not hosts.find(model).num_classes:
            raise ValueError(
                f"{type(model).__name__} is no classifier: int8 is judged by classes, so it is for those only"
            )
        self.model, self.float_file, self.images = model, float_file, images
        self.folder, self.batch, self.tell = folder, batch, tell

    def judge(self, target: Path, maker: Int8Maker, max_drop: float = 2.0) -> Agreement:
        """Write an int8 form and compare its classes with vanilla's in float.

        Args:
            target: What to write; the caller takes it away when this raises.
            maker: Quantiser and runtime.
            max_drop: Most points of agreement that int8 may lose against the float form of the same model.

        Raises:
            AgreementError: It loses more.
        """
        self.tell("calibrating the reduced model")
        products = maker.quantise(self.float_file, target, self.images.calibration, self.batch or 1)
        self.tell("judging")
        agreement = Agreement(
            n=len(self._truth),
            reduced=self._reduced,
            vanilla_int8=self._vanilla_int8(maker),
            reduced_int8=self._share(maker.run(target)),
            products=products,
        )
        if agreement.drop > max_drop:
            raise AgreementError(
                f"int8 agrees with vanilla on {agreement.reduced_int8:.1%} of {agreement.n} held-out images, its own "
                f"float form on {agreement.reduced:.1%}: {agreement.drop:.1f} points lost, more than {max_drop:g}; it "
                f"was not written. Vanilla's own int8 agrees on {agreement.vanilla_int8:.1%}. Remove fewer tokens, "
                "give more images to calibrate on, or raise --max-drop if that is acceptable to you"
            )
        return agreement

    @cached_property
    def _vanilla(self) -> nn.Module:
        return remove(copy.deepcopy(self.model))

    @cached_property
    def _truth(self) -> Classes:
        return _classes(_torch_runner(self._vanilla), self.images.held_out, self.batch)

    @cached_property
    def _reduced(self) -> float:
        return self._share(_torch_runner(self.model))

    @cached_property
    def _vanilla_file(self) -> Path:
        self.tell("exporting vanilla, to compare")
        path = self.folder / "vanilla.onnx"
        shape = None if self.batch is None else hosts.find(self._vanilla).example_shape(self.batch)
        convert(self._vanilla, path, shape, self.batch is None)
        return path

    def _vanilla_int8(self, maker: Int8Maker) -> float:
        """Agreement of the vanilla model in int8, made in the same way."""
        quantised = self.folder / f"vanilla-int8{maker.ending}"
        maker.quantise(self._vanilla_file, quantised, self.images.calibration, self.batch or 1)
        return self._share(maker.run(quantised))

    def _share(self, run: Runner) -> float:
        return float((self._truth == _classes(run, self.images.held_out, self.batch)).mean())


def _torch_runner(model: nn.Module) -> Runner:
    handle = hosts.find(model)

    @torch.no_grad()
    def run(pixels: Any) -> Any:
        return handle.logits(model(pixels))

    return run


def _classes(run: Runner, images: Sequence[NDArray[np.float32]], batch: int | None) -> Classes:
    """The class of every image, in batches of the size that the file takes."""
    size, classes = batch or 8, []
    for start in range(0, len(images), size):
        some = list(images[start : start + size])
        filled = some + [some[-1]] * (size - len(some) if batch else 0)
        logits = np.asarray(run(torch.from_numpy(np.concatenate(filled))))
        classes.append(logits[: len(some)].argmax(-1))
    return np.concatenate(classes)
