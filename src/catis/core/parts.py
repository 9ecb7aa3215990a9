"""The seams of a transformer block that a host adapter exposes, each calling the model's own sub-modules."""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

from torch import Tensor


class Projection(NamedTuple):
    """Query, key and value of one attention, (B, H, N, d) each, as its dot product sees them."""

    query: Tensor  # after q-norm and rotation
    key: Tensor  # after k-norm and rotation
    value: Tensor
    content_key: Tensor  # key before rotation (the same tensor in models without rotary positions)
    scale: float  # factor on query . key
    # (B, N) where each token sits among the windows, in attention by windows; None otherwise.
    places: Tensor | None = None


class BlockParts(Protocol):
    """One block, taken apart between attention and MLP. Nothing in it may hold state of a forward call."""

    def norm(self, x: Tensor) -> Tensor:
        """Z: what the attention reads."""

    def project(self, features: Tensor, positions: Tensor | None, rows: int | None = None) -> Projection:
        """Queries, keys and values of Z; queries of the first `rows` tokens only, all of them prefix, if given."""

    def mix(self, projection: Projection, bias: Tensor | None) -> Tensor:
        """(B, H, N, d) attention output, with the kernel that the model itself would use."""

    def output(self, heads: Tensor, features: Tensor) -> Tensor:
        """(B, N, C) from (B, H, N, d): scale norm, gate, output projection."""

    def add_attention(self, x: Tensor, update: Tensor) -> Tensor:
        """H = X + update, with LayerScale and DropPath."""

    def add_mlp(self, x: Tensor) -> Tensor:
        """The second half of the block: norm, MLP, LayerScale, DropPath, residual."""


def whole(tensor: Tensor) -> Tensor:
    """All of a tensor that is spread over processes (DTensor), so that each decides alike; any other as it is."""
    return tensor if type(tensor) is Tensor or not hasattr(tensor, "full_tensor") else tensor.full_tensor()


def replicated(tensor: Tensor, like: Any) -> Tensor:
    """A tensor that all processes hold, as a spread one where `like` is one: operations take no mixture."""
    if type(like) is Tensor or not hasattr(like, "device_mesh"):
        return tensor
    from torch.distributed.tensor import DTensor, Replicate

    mesh = like.device_mesh
    return DTensor.from_local(tensor, mesh, [Replicate()] * mesh.ndim, run_check=False)
