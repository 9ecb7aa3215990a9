"""What ONNX Runtime's quantiser leaves to be done in a QDQ file: who reads rounded values, and what keeps int8 int8."""

from __future__ import annotations

from pathlib import Path
from typing import Any


def finish_qdq(path: Path, source: Any, quantised: set[str]) -> None:
    """Mend a file that the quantiser wrote, in its place.

    Args:
        path: The file.
        source: Graph that it was made of, with the shapes that the exporter wrote into it.
        quantised: Names of the products that became int8.
    """
    import onnx

    model = onnx.load(path)
    _unround_the_others(model.graph, quantised)
    _keep_biases_apart(model.graph, quantised, _names_of_rank_3(source))
    onnx.save(model, path)


def _unround_the_others(graph: Any, quantised: set[str]) -> None:
    """Let whoever is not quantised read a tensor as it was: the quantiser rounds it for all of its readers.

    Without this, scores would be made of rounded features wherever a linear layer reads the same ones.
    """
    rounded = {node.output[0]: node.input[0] for node in graph.node if node.op_type == "QuantizeLinear"}
    exact = {
        node.output[0]: rounded[node.input[0]]
        for node in graph.node
        if node.op_type == "DequantizeLinear" and node.input[0] in rounded
    }
    for node in graph.node:
        if node.name not in quantised:
            node.input[:] = [exact.get(name, name) for name in node.input]


def _keep_biases_apart(graph: Any, quantised: set[str], tokens: set[str]) -> None:
    """Store what is added to products of tokens as (1, 1, C) in place of (C,).

    Where shapes are known, ONNX Runtime makes one Gemm of a product and a (C,) bias, which it runs in float: a file
    with a fixed batch would be slower than its float form.
    """
    products = {node.output[0] for node in graph.node if node.name in quantised} & tokens
    stored = {tensor.name: tensor for tensor in graph.initializer}
    made: dict[str, Any] = {}
    for node in graph.node:
        if node.op_type == "Add" and products & set(node.input):
            for place, name in enumerate(node.input):
                if name in stored and len(stored[name].dims) == 1:
                    row = made.setdefault(name, _as_row(stored[name]))
                    node.input[place] = row.name
    graph.initializer.extend(made.values())


def _as_row(bias: Any) -> Any:
    row = type(bias)()
    row.CopyFrom(bias)
    row.name = f"{bias.name}.row"
    row.dims[:] = [1, 1, *bias.dims]
    return row


def _names_of_rank_3(graph: Any) -> set[str]:
    return {value.name for value in graph.value_info if len(value.type.tensor_type.shape.dim) == 3}
