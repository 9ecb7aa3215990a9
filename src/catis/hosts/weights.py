"""The weights of a model: their hash, and how some parameters are replaced and given back bit for bit.

A parameter is replaced as an object, never written into: copies that share it, threads that are reading it and the
optimizer that holds it see no change, and the very same object is there again afterwards.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn


class Place(NamedTuple):
    """Where a parameter lies: `module.name`, and what the whole model calls it."""

    full_name: str
    module: nn.Module
    name: str

    @property
    def parameter(self) -> nn.Parameter:
        """What is there now."""
        return getattr(self.module, self.name)  # type: ignore[no-any-return]


class Replaced(NamedTuple):
    """A parameter that gave way to another, to be put back at its place."""

    place: Place
    original: nn.Parameter


def weights_hash(weights: Mapping[str, Tensor], dtype: torch.dtype | None = None) -> str:
    """Hash of weights by name: names, types, shapes and bytes. The same on any device and in any process.

    Args:
        weights: All of a model, as `state_dict` gives them.
        dtype: Hash them as if the floating-point ones had been cast to this type.

    Example:
        >>> layer = nn.Linear(2, 2)
        >>> before = weights_hash(layer.state_dict())
        >>> before == weights_hash(layer.state_dict()), before == weights_hash(nn.Linear(2, 2).state_dict())
        (True, False)
        >>> weights_hash(layer.state_dict(), torch.float16) == weights_hash(layer.half().state_dict())
        True
    """
    digest = hashlib.blake2b(digest_size=16)
    for name, tensor in sorted(weights.items()):
        cast = tensor.detach() if dtype is None or not tensor.is_floating_point() else tensor.detach().to(dtype)
        digest.update(f"{name} {cast.dtype} {tuple(cast.shape)}".encode())
        flat = cast.cpu().contiguous().reshape(-1)
        digest.update(flat.view(torch.uint8).numpy().data if flat.numel() else b"")
    return digest.hexdigest()


def find_places(model: nn.Module, values: Mapping[str, Tensor]) -> list[Place]:
    """Where the parameters lie that are to be replaced; nothing is changed.

    Raises:
        ValueError: There is no such parameter, it has another shape, is shared by two layers, is quantised or spread
            over devices, or its weights are not there (meta device, accelerate's offloading).
    """
    parameters = dict(model.named_parameters(remove_duplicate=False))
    known = {name: id(parameter) for name, parameter in parameters.items()}
    places = []
    for name, value in values.items():
        if name not in parameters:
            raise ValueError(f"{type(model).__name__} has no parameter {name}, for which calibrated weights were given")
        _check_replaceable(name, parameters[name], value)
        sharing = [other for other in known if known[other] == known[name] and other != name]
        if sharing:
            raise ValueError(f"{name} and {', '.join(sharing)} are one parameter: calibrating one would change both")
        path, _, own = name.rpartition(".")
        places.append(Place(name, model.get_submodule(path), own))
    return places


def _check_replaceable(name: str, parameter: nn.Parameter, value: Tensor) -> None:
    if parameter.shape != value.shape:
        raise ValueError(f"{name} has the shape {tuple(parameter.shape)}, the calibrated one {tuple(value.shape)}")
    if parameter.is_meta:
        raise ValueError(
            f"{name} is on the meta device, as weights that accelerate has offloaded are: load the model without "
            "offloading before calibrated weights are put on it"
        )
    if type(parameter) is not nn.Parameter or not parameter.is_floating_point():
        kind = f"{type(parameter).__name__} of {parameter.dtype}"
        raise ValueError(f"{name} is a {kind}: put calibrated weights on first, then quantise or distribute the model")


def replace_weights(places: Sequence[Place], values: Mapping[str, Tensor]) -> tuple[Replaced, ...]:
    """Put values at their places, on the device and in the type of what is there; returns what to give back."""
    olds = [place.parameter for place in places]
    news = [
        nn.Parameter(torch.empty_like(old.detach()).copy_(values[place.full_name]), requires_grad=old.requires_grad)
        for place, old in zip(places, olds, strict=True)
    ]
    for place, new in zip(places, news, strict=True):  # all are made before the first is put in
        place.module._parameters[place.name] = new
    return tuple(Replaced(place, old) for place, old in zip(places, olds, strict=True))


def give_back(model: nn.Module, replaced: Sequence[Replaced]) -> None:
    """Put the originals back; one whose place has moved to another device or type since follows it there.

    Raises:
        ValueError: A layer was exchanged since, as quantising does. Nothing is changed then.
    """
    modules = set(model.modules())
    for place, original in replaced:
        now = place.module._parameters.get(place.name)
        if place.module not in modules or type(now) is not nn.Parameter or now.shape != original.shape:
            raise ValueError(
                f"the old weights of {place.full_name} cannot be given back: the layer is not in the "
                f"{type(model).__name__} that was passed, or was exchanged or quantised since; pass the model that "
                "catis.apply was given, or load the vanilla model again"
            )
    for place, original in replaced:
        place.module._parameters[place.name] = _following(original, place.parameter)


def _following(original: nn.Parameter, now: nn.Parameter) -> nn.Parameter:
    if (original.device, original.dtype) != (now.device, now.dtype):
        original = nn.Parameter(original.detach().to(now.device, now.dtype))
    original.requires_grad_(now.requires_grad)
    return original


def original_weights(model: nn.Module, replaced: Sequence[Replaced]) -> dict[str, Tensor]:
    """The state_dict of the model as it was before any of its parameters were replaced."""
    now = model.state_dict()
    return now | {place.full_name: original.detach() for place, original in replaced if place.full_name in now}
