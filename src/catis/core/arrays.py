"""Index arithmetic in one spelling for NumPy and PyTorch.

Deciding which tokens go takes dozens of operations on tiny arrays. Eager PyTorch on CPU pays 5-10 microseconds for
each, more than the arithmetic itself; NumPy pays one or two. So plain CPU tensors are decided on by NumPy, and
everything else (CUDA, compile, export, tracing, fake tensors) by PyTorch, with the same lines of code. For float32 on
CPU there is something faster still: catis.native.
"""

from __future__ import annotations

from typing import Any

from torch import Tensor

from catis.core.numpy_arrays import NumpyArrays
from catis.core.torch_arrays import TorchArrays
from catis.eager import is_eager

__all__ = ["NumpyArrays", "TorchArrays", "arrays_for"]


def arrays_for(tensor: Tensor) -> Any:
    """The library that handles this tensor's small arithmetic fastest here: NumpyArrays or TorchArrays."""
    plain = is_eager() and type(tensor) is Tensor and tensor.device.type == "cpu"
    return NumpyArrays if plain else TorchArrays
