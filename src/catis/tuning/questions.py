"""What a search asks, and who answers: how far is a reduction from vanilla, as it is or after a quick calibration?"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from catis.core.reduction import Reduction
from catis.tuning.objective import Objective


@dataclass(frozen=True)
class Question:
    """How far is a reduction from vanilla on some images?"""

    reduction: Reduction  # bound to the model
    images: str  # "search" or "choose"
    views: int | None  # about how many views; None for all

    @property
    def key(self) -> str:
        """The same for the same question."""
        return json.dumps(self.to_json(), sort_keys=True)

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        return {"reduction": self.reduction.to_json(), "images": self.images, "views": self.views}


class Trial(NamedTuple):
    """A quick calibration."""

    gmacs: float  # what it costs
    # From vanilla once a reduction is calibrated, clean and corrupted images counting alike.
    distance: Callable[[Reduction], float]


Answer = Callable[[Sequence[Question]], Sequence[float]]
"""Works out distances, in order."""


def local_answers(objectives: Mapping[str, Objective]) -> Answer:
    """Works out distances here, one after the other."""
    return lambda questions: [objectives[q.images].distance(q.reduction, q.views) for q in questions]
