"""Queries and keys that are spread over processes (DTensor, of tensor parallelism) beside tokens that are not."""

from __future__ import annotations

from typing import Any

from torch import Tensor


def whole(tensor: Tensor) -> Tensor:
    """All of a spread tensor as a plain one, so that every process decides alike; any other tensor as it is."""
    return tensor if type(tensor) is Tensor or not hasattr(tensor, "full_tensor") else tensor.full_tensor()


def replicated(tensor: Tensor, like: Any) -> Tensor:
    """A plain tensor that all processes hold, as a spread one where `like` is one: operations take no mixture."""
    if type(like) is Tensor or not hasattr(like, "device_mesh"):
        return tensor
    from torch.distributed.tensor import DTensor, Replicate

    mesh = like.device_mesh
    return DTensor.from_local(tensor, mesh, [Replicate()] * mesh.ndim, run_check=False)
