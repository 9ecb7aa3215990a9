"""How long the matrix products of an exported file take, by the runtime's own profiler."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

from torch import Tensor

from catis.bench.settings import Runtime
from catis.export.contract import INPUT
from catis.export.runtimes import openvino_model, openvino_settings, ort_session

PASSES = 5
"""Profiled passes; the fastest one counts, as for parts of PyTorch's passes."""
_PRODUCTS = ("matmul", "gemm", "conv", "attention", "fullyconnected")
"""Of kinds of nodes in either runtime, any part of which is a product: FusedMatMul, QLinearConv, FullyConnected."""


def seconds_of_products(path: Path, runtime: Runtime, images: Tensor, threads: int) -> float | None:
    """Seconds that the products of one pass take; None for a runtime that does not tell."""
    if runtime == "torch":
        return None
    profile = _onnxruntime if runtime == "onnxruntime" else _openvino
    return min(sum(part for kind, part in nodes if is_product(kind)) for nodes in profile(path, images, threads))


def is_product(kind: str) -> bool:
    """Whether nodes of this kind are matrix products, in float or int8.

    Example:
        >>> [is_product(kind) for kind in ("QLinearMatMul", "FullyConnected", "TopK", "Softmax")]
        [True, True, False, False]
    """
    return any(part in kind.lower() for part in _PRODUCTS)


Nodes = list[tuple[str, float]]
"""(kind, seconds) of the nodes of one pass."""


def _onnxruntime(path: Path, images: Tensor, threads: int) -> list[Nodes]:
    with tempfile.TemporaryDirectory(prefix="catis-profile-") as folder:
        session = ort_session(path, threads, Path(folder) / "profile")
        for _ in range(PASSES + 1):  # the first one warms up
            session.run(None, {INPUT: images.numpy()})
        events: list[dict[str, Any]] = json.loads(Path(session.end_profiling()).read_text())
    passes: list[Nodes] = [[]]
    for event in events:
        if event["name"] == "model_run":
            passes.append([])  # comes after the nodes of its pass
        elif event.get("cat") == "Node" and event["name"].endswith("_kernel_time"):
            passes[-1].append((event["args"]["op_name"], 1e-6 * event["dur"]))
    return passes[1:-1]


def _openvino(path: Path, images: Tensor, threads: int) -> list[Nodes]:
    settings = {**openvino_settings(threads), "PERF_COUNT": "YES"}
    request = openvino_model(path, settings, len(images)).create_infer_request()
    passes = []
    for _ in range(PASSES + 1):
        request.infer([images.numpy()])
        passes.append([(node.node_type, node.real_time.total_seconds()) for node in request.get_profiling_info()])
    return passes[1:]
