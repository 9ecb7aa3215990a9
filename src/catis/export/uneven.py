"""Products that int8 would ruin: a few values of their input are so large that rounding leaves nothing of the others.

The second layer of an MLP may be one, where a few values of some tokens are huge: one step of int8 is then larger than
most values. Which layers these are is measured on images.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

STEPS = 255
"""Of int8 over the range of a tensor."""
_LOW, _HIGH, _TYPICAL = ".catis_low", ".catis_high", ".catis_typical"


def uneven_products(
    source: Path, products: Sequence[str], feeds: Iterable[Mapping[str, NDArray[np.float32]]]
) -> set[str]:
    """Names of the products of an ONNX file whose input is rounded by steps larger than its typical value.

    Args:
        source: A float ONNX file.
        products: Names of the products with weights; convolutions, whose input is the image, are not looked at.
        feeds: What to run it on.
    """
    import onnx
    import onnxruntime

    model = onnx.load(source)
    inputs = {node.name: node.input[0] for node in model.graph.node if node.name in products and node.op_type != "Conv"}
    widths = _widths(model.graph, set(inputs))
    for tensor in dict.fromkeys(inputs.values()):
        _probe(model.graph, tensor, widths[tensor])
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    seen = [
        dict(zip((out.name for out in session.get_outputs()), session.run(None, feed), strict=True)) for feed in feeds
    ]
    return {name for name, tensor in inputs.items() if _step(seen, tensor) > _typical(seen, tensor)}


def _widths(graph: Any, products: set[str]) -> dict[str, int]:
    """Channels of the input of each product, which its weights tell."""
    stored = {tensor.name: tensor for tensor in graph.initializer}
    widths = {}
    for node in graph.node:
        if node.name in products:
            transposed = any(entry.name == "transB" and entry.i for entry in node.attribute)
            widths[node.input[0]] = int(stored[node.input[1]].dims[1 if transposed else 0])
    return widths


def _probe(graph: Any, tensor: str, width: int) -> None:
    """Let a graph also return the lowest and highest value of a tensor, and the mean size of each channel."""
    from onnx import TensorProto, helper

    shape, axis = f"{tensor}.catis_shape", f"{tensor}.catis_axis"
    graph.initializer.extend([
        helper.make_tensor(shape, TensorProto.INT64, [2], [-1, width]),
        helper.make_tensor(axis, TensorProto.INT64, [1], [0]),
    ])  # fmt: skip
    rows, sizes = f"{tensor}.catis_rows", f"{tensor}.catis_sizes"
    graph.node.extend([
        helper.make_node("ReduceMin", [tensor], [tensor + _LOW], keepdims=0),
        helper.make_node("ReduceMax", [tensor], [tensor + _HIGH], keepdims=0),
        helper.make_node("Reshape", [tensor, shape], [rows]),
        helper.make_node("Abs", [rows], [sizes]),
        helper.make_node("ReduceMean", [sizes, axis], [tensor + _TYPICAL], keepdims=0),
    ])  # fmt: skip
    for name, dims in ((_LOW, []), (_HIGH, []), (_TYPICAL, [width])):
        graph.output.append(helper.make_tensor_value_info(tensor + name, TensorProto.FLOAT, dims))


def _step(seen: Sequence[Mapping[str, Any]], tensor: str) -> float:
    low, high = min(run[tensor + _LOW] for run in seen), max(run[tensor + _HIGH] for run in seen)
    return float(max(high, 0) - min(low, 0)) / STEPS


def _typical(seen: Sequence[Mapping[str, Any]], tensor: str) -> float:
    """Median over channels of their mean size: a few huge ones do not change it."""
    return float(np.median(np.mean([run[tensor + _TYPICAL] for run in seen], 0)))
