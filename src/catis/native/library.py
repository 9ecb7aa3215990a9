"""Finds the compiled functions and says how many threads they use."""

from __future__ import annotations

import ctypes
import importlib
import os
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch

SWITCH = "CATIS_NATIVE"
"""Environment variable; "0" makes PyTorch's operations run instead."""

CPU = torch.device("cpu")
"""Said to every function that makes a tensor: the default device may be another one."""


class Kernels:
    """The compiled functions.

    Attributes:
        module: Has them: `decide_tome`, `decide_pitome`, `decide_catis`, `attention_received`, `decide_mctf`, `merge`.
    """

    def __init__(self, module: Any) -> None:
        self.module = module
        module.use(torch.Tensor, torch.float32, torch.int64, torch.strided)
        own = module.openmp()
        self._shares_threads = own is not None and own == _openmp_of_torch()
        os.register_at_fork(after_in_child=self._stay_alone)

    def threads(self) -> int:
        """PyTorch's own threads, or one: a second pool would fight with PyTorch's for the cores."""
        return torch.get_num_threads() if self._shares_threads else 1

    def _stay_alone(self) -> None:
        # The threads of a pool do not exist in a forked child, and OpenMP would wait for them for ever.
        self._shares_threads = False


@cache
def load() -> Kernels | None:
    """The compiled functions, or None where they are not built or switched off."""
    name = "catis.native.compiled"
    if os.environ.get(SWITCH, "1") == "0" or find_spec(name) is None:
        return None
    try:
        return Kernels(importlib.import_module(name))
    except ImportError as error:
        raise RuntimeError(
            f"the compiled functions of catis are there but cannot be loaded ({error}); "
            f"install catis again on this machine, or set {SWITCH}=0 to do without them"
        ) from error


def describe() -> str:
    """What chooses tokens on float32 CPU tensors here, for reports."""
    kernels = load()
    if kernels is None:
        return "PyTorch"
    return "compiled code" if kernels.threads() == torch.get_num_threads() else "compiled code on one thread"


def new_floats(shape: tuple[int, ...]) -> torch.Tensor:
    """Memory for float32 numbers."""
    return torch.empty(shape, dtype=torch.float32, device=CPU)


def _openmp_of_torch() -> int | None:
    """Address of the OpenMP that PyTorch uses."""
    path = Path(torch.__file__).parent / "lib" / "libtorch_cpu.so"
    function = getattr(ctypes.CDLL(str(path)), "omp_get_max_threads", None) if path.exists() else None
    return None if function is None else ctypes.cast(function, ctypes.c_void_p).value
