"""What a model says of each image, so that two runs can be compared image by image."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Predictions:
    """Predicted classes of the images that could be read, in the order of their names.

    Attributes:
        names: Of the images, as in the data set.
        labels: (n,) true classes.
        top: (n, k) most likely classes, best first; k is 5, or the number of classes if that is smaller.
        confidence: (n,) softmax probability of the first.
        margin: (n,) logit of the first minus logit of the second.

    Example:
        >>> import numpy as np
        >>> top = np.array([[3, 1], [0, 2]])
        >>> said = Predictions(("a.png", "b.png"), np.array([3, 2]), top, np.ones(2), np.ones(2))
        >>> int(said.correct(1).sum()), int(said.correct(5).sum())
        (1, 2)
    """

    names: Sequence[str]
    labels: NDArray[np.int64]
    top: NDArray[np.int64]
    confidence: NDArray[np.float32]
    margin: NDArray[np.float32]

    def __len__(self) -> int:
        return len(self.names)

    def correct(self, k: int = 1) -> NDArray[np.bool_]:
        """(n,) whether the true class is among the first k."""
        correct: NDArray[np.bool_] = (self.top[:, :k] == self.labels[:, None]).any(axis=1)
        return correct

    def paired(self, other: Predictions) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Positions, here and in the other, of the images that both have, by name.

        Raises:
            ValueError: They have no image in common.
        """
        places = {name: place for place, name in enumerate(other.names)}
        both = [(place, places[name]) for place, name in enumerate(self.names) if name in places]
        if not both:
            raise ValueError(f"no image in common: {len(self)} against {len(other)}; were both made on the same data?")
        here, there = np.array(both, dtype=np.int64).T
        return here, there
