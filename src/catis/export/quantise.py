"""int8 by the runtime makers' own quantisers: ONNX Runtime's static QDQ for ONNX, NNCF for OpenVINO."""

from __future__ import annotations

import importlib
import io
import logging
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from catis.errors import CatisError, require
from catis.export.contract import INPUT
from catis.export.disk import saving
from catis.export.float_parts import PRODUCTS, products_with_weights, weighted_openvino_operations
from catis.export.qdq import finish_qdq
from catis.export.runtimes import runtime_errors
from catis.export.uneven import uneven_products

Images = Sequence[NDArray[np.float32]]
"""Prepared images, (1, 3, H, W) each."""


_LOOKED_AT = 32
"""Images that tell which products int8 would ruin; these differ by orders of magnitude, so few images do."""


class QuantiserError(CatisError):
    """A quantiser or a runtime gave up on the model; no int8 file was written."""


def quantise_onnx(source: Path, target: Path, images: Images, batch: int = 1) -> int:
    """Write an int8 form of an ONNX file: QDQ, weights by output channel, activations by their range on `images`.

    Args:
        source: A float ONNX file.
        target: The file to write.
        images: What to calibrate on.
        batch: Images that the file takes at once; 1 where that is free.

    Returns:
        How many products became int8.
    """
    require("int8", "export", "onnx", "onnxruntime")
    import onnx
    from onnxruntime import quantization as ort

    model = onnx.load(source)
    uneven = _uneven(source, model.graph, images, batch)
    chosen = [name for name in products_with_weights(model.graph) if name not in uneven]
    with tempfile.TemporaryDirectory() as folder, _quiet(), _told("ONNX Runtime's quantiser"):
        ort.quantize_static(
            model,
            target,
            _reader(images, batch),
            quant_format=ort.QuantFormat.QDQ,
            per_channel=True,
            activation_type=ort.QuantType.QUInt8,
            weight_type=ort.QuantType.QInt8,
            nodes_to_quantize=chosen,
            op_types_to_quantize=list(PRODUCTS),
            calibration_cache_path=Path(folder) / "ranges",
            extra_options={
                "OpTypesToExcludeOutputQuantization": list(PRODUCTS),  # what scores are made of is not rounded again
                "QuantizeBias": False,
            },
        )
    finish_qdq(target, model.graph, set(chosen))
    return len(chosen)


def _uneven(source: Path, graph: Any, images: Images, batch: int) -> set[str]:
    """Names of the products with weights that stay float."""
    feeds = ({INPUT: pixels} for pixels in _batches(images[:_LOOKED_AT], batch))
    return uneven_products(source, products_with_weights(graph), feeds)


def quantise_openvino(source: Path, target: Path, images: Images, batch: int = 1) -> int:
    """Write an int8 OpenVINO model (.xml, and .bin beside it) of an ONNX file, by NNCF.

    Returns:
        How many products became int8.
    """
    require("int8 for OpenVINO", "openvino", "openvino", "nncf")
    import onnx

    openvino: Any = importlib.import_module("openvino")
    with _quiet(), _told("NNCF"):
        nncf: Any = importlib.import_module("nncf")
        model = openvino.Core().read_model(source)
        uneven = _uneven(source, onnx.load(source).graph, images, batch)
        weighted = {
            name
            for name in weighted_openvino_operations(model.get_ops())
            if name.partition("/")[0] not in uneven  # OpenVINO's names are the nodes' own, and "node/WithoutBiases"
        }
        others = [node.get_friendly_name() for node in model.get_ops() if node.get_friendly_name() not in weighted]
        feeds = list(_batches(images, batch))
        made = nncf.quantize(
            model,
            nncf.Dataset(feeds),
            subset_size=len(feeds),
            model_type=nncf.ModelType.TRANSFORMER,
            advanced_parameters=_unsmoothed(nncf),
            ignored_scope=nncf.IgnoredScope(names=others, validate=False),
        )
        with saving("the OpenVINO model", target.parent):
            openvino.save_model(made, target, compress_to_fp16=False)
    return len(weighted)


def _unsmoothed(nncf: Any) -> Any:
    """NNCF's settings without SmoothQuant, which moves large values from inputs into weights.

    Products that need it stay float here (uneven.py), and it makes the others worse: docs/deploy.md has by how much.
    """
    return nncf.AdvancedQuantizationParameters(
        smooth_quant_alphas=nncf.AdvancedSmoothQuantParameters(matmul=-1)  # NNCF's word for "not at all"
    )


def _batches(images: Images, batch: int) -> Iterator[NDArray[np.float32]]:
    """Whole batches; the last one begins again at the front where images run out."""
    for start in range(0, len(images), batch):
        yield np.concatenate([images[(start + place) % len(images)] for place in range(batch)])


def _reader(images: Images, batch: int) -> Any:
    from onnxruntime.quantization import CalibrationDataReader

    class Reader(CalibrationDataReader):  # type: ignore[misc]
        """Hands out one batch after the other, as ONNX Runtime wants it."""

        def __init__(self) -> None:
            self.feeds = ({INPUT: pixels} for pixels in _batches(images, batch))

        def get_next(self) -> dict[str, NDArray[np.float32]] | None:
            return next(self.feeds, None)

    return Reader()


@contextmanager
def _told(who: str) -> Iterator[None]:
    """Turn what a quantiser raises about a model into an error that says who could not do what."""
    try:
        yield
    except runtime_errors() as error:
        said = " ".join(str(error).split())[:400]
        raise QuantiserError(
            f"{who} cannot make an int8 form of this model, so none was written. It said: {said}"
        ) from error


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep the libraries' advice and bars off the terminal; what they raise still comes through."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with redirect_stdout(io.StringIO()):
            yield
    finally:
        logging.disable(before)
