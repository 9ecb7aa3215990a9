"""Finds the compiled functions, and says when they may be used."""

from __future__ import annotations

import ctypes
import importlib
import os
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.autograd import forward_ad

from catis.eager import is_eager

__all__ = ["SWITCH", "Kernels", "describe", "is_plain", "kernels_for"]

SWITCH = "CATIS_NATIVE"
"""Environment variable; "0" makes the array code run instead."""


class Kernels:
    """The compiled functions.

    Attributes:
        module: Has them: `decide_tome`, `decide_pitome`, `decide_catis`, `merge`.
    """

    def __init__(self, module: Any) -> None:
        self.module = module
        own = module.openmp()
        self._shares_threads = own is not None and own == _openmp_of_torch()

    def threads(self) -> int:
        """PyTorch's own threads, or one: a second pool would fight with PyTorch's for the cores."""
        return torch.get_num_threads() if self._shares_threads else 1


@cache
def _load() -> Kernels | None:
    name = "catis.native.kernels"
    if os.environ.get(SWITCH, "1") == "0" or find_spec(name) is None:
        return None
    try:
        return Kernels(importlib.import_module(name))
    except ImportError as error:
        raise RuntimeError(
            f"the compiled functions of catis are there but cannot be loaded ({error}); "
            f"install catis again on this machine, or set {SWITCH}=0 to do without them"
        ) from error


def kernels_for(x: Tensor) -> Kernels | None:
    """The compiled functions, if they may be used on this tensor and what a model computes from it.

    It must be plain float32 in CPU memory, and nobody may be watching: compiling, exporting and tracing need PyTorch's
    operations, and so do transforms, and dispatch modes that count or fake them. One answer serves a forward call,
    since asking takes longer than a small operation.
    """
    if not is_eager() or type(x) is not Tensor or x.dtype != torch.float32 or not x.is_cpu:
        return None
    if torch._C._len_torch_dispatch_stack() or torch._C._functorch.is_functorch_wrapped_tensor(x):
        return None
    return None if forward_ad._current_level >= 0 else _load()


def is_plain(x: Tensor) -> bool:
    """Whether a tensor of such a call is still float32, and nobody will ask for a gradient through it."""
    return x.dtype == torch.float32 and not (x.requires_grad and torch.is_grad_enabled())


def describe() -> str:
    """What chooses tokens on float32 CPU tensors here, for reports."""
    kernels = _load()
    if kernels is None:
        return "NumPy"
    return "compiled code" if kernels.threads() == torch.get_num_threads() else "compiled code on one thread"


def _openmp_of_torch() -> int | None:
    """Address of the OpenMP that PyTorch uses."""
    path = Path(torch.__file__).parent / "lib" / "libtorch_cpu.so"
    function = getattr(ctypes.CDLL(str(path)), "omp_get_max_threads", None) if path.exists() else None
    return None if function is None else ctypes.cast(function, ctypes.c_void_p).value
