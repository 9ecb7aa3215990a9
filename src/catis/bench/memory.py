"""Peak memory of a forward pass."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from torch.autograd.profiler import profile


def peak_bytes(step: Callable[[], object], device: torch.device) -> int:
    """Most that PyTorch's allocator held at once during a pass, above what was there before it (weights, input).

    On CPU every allocation and release is read from the profiler. What catis decides with on CPU, NumPy's arrays
    or the working memory of its compiled functions (one image per thread), is not in it: small beside the tokens.
    On CUDA it is `torch.cuda.max_memory_allocated`.

    Example:
        >>> peak_bytes(lambda: torch.ones(1000), torch.device("cpu"))
        4000
    """
    return _cuda_peak(step, device) if device.type == "cuda" else _cpu_peak(step)


def _cuda_peak(step: Callable[[], object], device: torch.device) -> int:
    torch.cuda.synchronize(device)
    torch.cuda.reset_peak_memory_stats(device)
    before = torch.cuda.memory_allocated(device)
    step()
    torch.cuda.synchronize(device)
    return torch.cuda.max_memory_allocated(device) - before


def _cpu_peak(step: Callable[[], object]) -> int:
    with _quiet_profiler(), profile(profile_memory=True) as profiled:
        step()
    assert profiled.kineto_results is not None
    events = [event for event in profiled.kineto_results.events() if event.name() == "[memory]"]
    held = peak = 0
    for event in sorted(events, key=lambda event: event.start_ns()):
        held += event.nbytes()
        peak = max(peak, held)
    return peak


@contextmanager
def _quiet_profiler() -> Iterator[None]:
    """Kineto logs to the terminal that there is no GPU, each time; it reads this variable when it starts."""
    name = "KINETO_LOG_LEVEL"
    before = os.environ.get(name)
    os.environ[name] = "99"
    try:
        yield
    finally:
        if before is None:
            del os.environ[name]
        else:
            os.environ[name] = before
