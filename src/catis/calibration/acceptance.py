"""Whether a step of a calibration is believed: by held-out answers, clean and corrupted images counting alike."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor

Apart = Mapping[bool, Tensor]
"""Distances of held-out answers from vanilla's, of the clean images (False) and of the corrupted ones (True)."""


class HeldOut:
    """Distances that were reached, against which a step is judged.

    Other weights merge other tokens, so answers move both ways by chance: a step that only seems to help costs more
    later than it gains.

    Args:
        started: Distances before anything was fitted, which are the unit.

    Example:
        >>> import torch
        >>> held = HeldOut({False: torch.tensor([1.0, 1.1, 0.9])})
        >>> held.closer({False: torch.tensor([0.5, 0.5, 0.5])}), held.farther({False: torch.tensor([1.0, 1.0, 1.0])})
        (True, False)
    """

    def __init__(self, started: Apart) -> None:
        self._units = {kind: max(float(own.mean()), 1e-9) for kind, own in started.items()}
        self.now = started

    def take(self, apart: Apart) -> None:
        """Judge further steps against these distances."""
        self.now = apart

    def closer(self, apart: Apart) -> bool:
        """Whether answers come closer by more than the standard error, and clean ones do not go away."""
        gain, error = self._gain(apart)
        return gain > error and bool(apart[False].mean() <= self.now[False].mean())

    def farther(self, apart: Apart) -> bool:
        """Whether answers go away by more than the standard error."""
        gain, error = self._gain(apart)
        return gain < -error

    def score(self) -> float:
        """Distance that was reached, in units of what it was before."""
        return sum(float(own.mean()) / self._units[kind] for kind, own in self.now.items()) / len(self.now)

    def _gain(self, apart: Apart) -> tuple[float, float]:
        """How much closer answers come, and its standard error."""
        gains = [(self.now[kind] - own) / self._units[kind] for kind, own in apart.items()]
        error = sum(float(gain.var()) / len(gain) for gain in gains) ** 0.5
        return sum(float(gain.mean()) for gain in gains), error
