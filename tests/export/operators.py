"""Which operators, on which element types, TensorRT's ONNX parser takes: its own list, for the ones we use.

From docs/operators.md of onnx/onnx-tensorrt, TensorRT 10.15. ONNX Runtime and OpenVINO are checked by running.
"""

from __future__ import annotations

import onnx
from onnx import TensorProto

FLOAT = {TensorProto.FLOAT}
NUMBER = FLOAT | {TensorProto.INT32, TensorProto.INT64}
ANY = NUMBER | {TensorProto.BOOL}
LOGIC = {TensorProto.BOOL}
# Types of the first input that is data; for Where that is the second.
TENSORRT = {
    **dict.fromkeys(["Add", "Sub", "Mul", "Div", "Mod", "Min", "Max", "Neg", "Abs", "Pow", "Pad"], NUMBER),
    **dict.fromkeys(["Equal", "Less", "LessOrEqual", "Greater", "GreaterOrEqual", "TopK", "ArgMax"], NUMBER),
    **dict.fromkeys(["ReduceMax", "ReduceMean", "ReduceSum", "ReduceL2", "ScatterElements", "Range"], NUMBER),
    **dict.fromkeys(["Reshape", "Transpose", "Concat", "Slice", "Squeeze", "Unsqueeze", "Expand", "Tile"], ANY),
    **dict.fromkeys(["Gather", "GatherElements", "Split", "Shape", "Cast", "Where", "Identity", "Constant"], ANY),
    **dict.fromkeys(["ConstantOfShape"], ANY),
    **dict.fromkeys(["Conv", "Gemm", "MatMul", "LayerNormalization", "Softmax", "Gelu", "Sqrt", "Reciprocal"], FLOAT),
    **dict.fromkeys(["Log", "Clip", "CumSum", "Elu", "IsNaN", "IsInf", "Erf", "Sigmoid", "Tanh", "Sin", "Cos"], FLOAT),
    **dict.fromkeys(["And", "Or", "Not", "Xor"], LOGIC),
}


def misfits(model: onnx.ModelProto) -> list[str]:
    """Nodes of a model that TensorRT's list does not have, on their element type or at all."""
    graph = onnx.shape_inference.infer_shapes(model).graph
    types = {value.name: value.type.tensor_type.elem_type for value in (*graph.value_info, *graph.input, *graph.output)}
    types |= {tensor.name: tensor.data_type for tensor in graph.initializer}
    found = []
    for node in graph.node:
        data = node.input[1] if node.op_type == "Where" else (node.input[0] if node.input else "")
        kind = types.get(data)
        reduction = [attribute for attribute in node.attribute if attribute.name == "reduction"]
        if node.op_type.startswith("Scatter") and any(attribute.s not in (b"", b"none") for attribute in reduction):
            found.append(f"{node.op_type} with reduction")
        elif node.op_type not in TENSORRT or (kind is not None and kind not in TENSORRT[node.op_type]):
            found.append(f"{node.op_type} on {kind and TensorProto.DataType.Name(kind)}")
    return sorted(set(found))
