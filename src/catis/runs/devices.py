"""Where a run computes, checked before anything is loaded."""

from __future__ import annotations

import torch


def choose_device(asked: str | None = None) -> str:
    """The device asked for, or CUDA if there is one, or else the CPU.

    Raises:
        ValueError: There is no such device here.

    Example:
        >>> choose_device("cpu")
        'cpu'
    """
    if asked is None:
        return "cuda" if torch.cuda.is_available() else "cpu"
    try:
        torch.zeros(1, device=torch.device(asked)).item()
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        why = str(error).strip().splitlines()[0]
        raise ValueError(f"device={asked!r} cannot be used here; expected cpu, cuda or cuda:N ({why})") from error
    return asked
