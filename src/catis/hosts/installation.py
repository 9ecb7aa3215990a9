"""What lies on a model, and how it gets there and away again: a reduction, and calibrated weights."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from torch import Tensor, nn

from catis.core.reduction import Reduction
from catis.hosts.correction import Calibrated, Correction
from catis.hosts.swap import EXCHANGES, base_class, reduced_class, set_class
from catis.hosts.weights import find_places, give_back, original_weights, replace_weights


class Installation(ABC):
    """The part of a handle that puts things on a model. It keeps nothing itself: all lies on the model."""

    def __init__(self, model: nn.Module, vit: nn.Module) -> None:
        self.model: Any = model
        self.vit: Any = vit

    @classmethod
    @abstractmethod
    def overrides(cls, base: Any) -> dict[str, Any]:
        """Methods of the reduced subclass of a model class."""

    @property
    def reduction(self) -> Reduction | None:
        """What is on the model, None if nothing is."""
        reduction: Reduction | None = vars(self.vit).get("catis_reduction")
        return reduction

    @property
    def correction(self) -> Correction | None:
        """The calibrated weights on the model, None if it has its own."""
        calibrated = self._calibrated
        return None if calibrated is None else calibrated.correction

    @property
    def vanilla_weights(self) -> dict[str, Tensor]:
        """The state_dict of the whole model, without any calibrated weights that are on it."""
        return original_weights(self.model, self._calibrated.replaced if self._calibrated else ())

    def correction_of(self, values: Mapping[str, Tensor]) -> Correction:
        """A correction with these values by parameter name, bound to the model's weights and its reduction."""
        assert self.reduction is not None
        return Correction.fitted(values, self.reduction, self.vanilla_weights)

    @property
    def _calibrated(self) -> Calibrated | None:
        calibrated: Calibrated | None = vars(self.vit).get("catis_calibrated")
        return calibrated

    def install(self, reduction: Reduction, correction: Correction | None = None) -> None:
        """Put a reduction on a model that `facts` accepted, in place of any that is there, and calibrated weights.

        A reduction that removes nothing leaves the model's own class and forward, so that it is vanilla to the last
        bit. Whether a correction belongs to the model and the reduction is for `Correction.check` to say; here it must
        only fit the parameters. Nothing is changed if it does not.
        """
        places = None if correction is None else find_places(self.model, correction.values)
        with self._exchange(correction):
            self._give_back()
            if correction is not None and places is not None:
                replaced = replace_weights(places, correction.values)
                vars(self.vit)["catis_calibrated"] = Calibrated(correction, replaced)
        vars(self.vit)["catis_reduction"] = reduction  # before the class: another thread may be about to call it
        base = base_class(self.vit)
        set_class(self.vit, base if reduction.is_vanilla else reduced_class(base, type(self)))

    def uninstall(self) -> None:
        """Make a reduced model the vanilla one again, weights too; a vanilla one is left alone."""
        with self._exchange(None):
            self._give_back()
        set_class(self.vit, base_class(self.vit))
        vars(self.vit).pop("catis_reduction", None)

    @contextmanager
    def installed(self, reduction: Reduction, correction: Correction | None = None) -> Iterator[None]:
        """`install` for the length of a with-block; what was on the model before comes back, also after an error."""
        before, weights = self.reduction, self.correction
        self.install(reduction, correction)
        try:
            yield
        finally:
            self.uninstall() if before is None else self.install(before, weights)

    @contextmanager
    def _exchange(self, correction: Correction | None) -> Iterator[None]:
        """Count an exchange of weights where there is one, so that a call that runs meanwhile can tell."""
        if correction is None and self._calibrated is None:
            yield
            return
        count = vars(self.vit).get(EXCHANGES, 0)
        vars(self.vit)[EXCHANGES] = count + 1
        try:
            yield
        finally:
            vars(self.vit)[EXCHANGES] = count + 2

    def _give_back(self) -> None:
        if self._calibrated is not None:
            give_back(self.model, self._calibrated.replaced)
            del vars(self.vit)["catis_calibrated"]
