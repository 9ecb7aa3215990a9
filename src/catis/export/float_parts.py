"""Which products become int8: those with weights. Everything that decides or normalises stays float."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

PRODUCTS = ("MatMul", "Gemm", "Conv")


def products_with_weights(graph: Any) -> list[str]:
    """Names of the linear layers and of the patch embedding in an ONNX graph.

    They are known by what they are, not by their names: a product whose second factor is a stored matrix. So attention
    and cosines (two computed factors), means (a stored *first* factor), layer norms, softmax, logarithms of sizes and
    every decision (TopK, ArgMax, comparisons and what feeds them) are left in float.

    Args:
        graph: `onnx.GraphProto`.
    """
    stored = {tensor.name for tensor in graph.initializer if len(tensor.dims) >= 2}
    return [node.name for node in graph.node if node.op_type in PRODUCTS and node.input[1] in stored]


def weighted_openvino_operations(operations: Iterable[Any]) -> set[str]:
    """The same of an OpenVINO model: names of products with a constant second factor, through casts and transposes."""
    return {
        operation.get_friendly_name()
        for operation in operations
        if operation.get_type_name() in ("MatMul", "Convolution") and _is_stored(operation.input_value(1).get_node())
    }


def _is_stored(node: Any) -> bool:
    """Whether a node is a constant, or computed from one alone."""
    if node.get_type_name() == "Constant":
        return True
    return bool(node.inputs()) and all(_is_stored(entry.get_source_output().get_node()) for entry in node.inputs())
