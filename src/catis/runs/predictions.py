"""What a model says of each image, so that two runs can be compared image by image; and its Parquet file."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Predictions:
    """Predicted classes of the images that could be read, in the order of their names.

    Example:
        >>> import numpy as np
        >>> top = np.array([[3, 1], [0, 2]])
        >>> said = Predictions(("a.png", "b.png"), np.array([3, 2]), top, np.ones(2), np.ones(2))
        >>> int(said.correct(1).sum()), int(said.correct(5).sum())
        (1, 2)
    """

    names: Sequence[str]  # of the images, as in the data set
    labels: NDArray[np.int64]  # (n,) true classes
    # (n, k) most likely classes, best first; k is 5, or the number of classes if that is smaller.
    top: NDArray[np.int64]
    confidence: NDArray[np.float32]  # (n,) softmax probability of the first
    margin: NDArray[np.float32]  # (n,) logit of the first minus logit of the second

    def __len__(self) -> int:
        return len(self.names)

    def correct(self, k: int = 1) -> NDArray[np.bool_]:
        """(n,) whether the true class is among the first k."""
        correct: NDArray[np.bool_] = (self.top[:, :k] == self.labels[:, None]).any(axis=1)
        return correct

    def paired(self, other: Predictions) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Positions, here and in the other, of the images that both have, by name."""
        places = {name: place for place, name in enumerate(other.names)}
        both = [(place, places[name]) for place, name in enumerate(self.names) if name in places]
        if not both:
            raise ValueError(f"no image in common: {len(self)} against {len(other)}; were both made on the same data?")
        here, there = np.array(both, dtype=np.int64).T
        return here, there


def to_parquet(predictions: Predictions) -> bytes:
    """A table file that anything can read: name, label, predicted, top5 (best first), confidence, margin."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    top = predictions.top.astype(np.int32)
    columns = {
        "name": pa.array(list(predictions.names), pa.string()),
        "label": pa.array(predictions.labels, pa.int32()),
        "predicted": pa.array(top[:, 0], pa.int32()),
        "top5": pa.FixedSizeListArray.from_arrays(pa.array(top.reshape(-1)), top.shape[1]).cast(pa.list_(pa.int32())),
        "confidence": pa.array(predictions.confidence, pa.float32()),
        "margin": pa.array(predictions.margin, pa.float32()),
    }
    file = io.BytesIO()
    pq.write_table(pa.table(columns), file, compression="zstd")
    return file.getvalue()


def from_parquet(content: bytes) -> Predictions:
    """Predictions from the file's bytes."""
    import pyarrow.parquet as pq

    table = pq.read_table(io.BytesIO(content))
    numbers = {name: table[name].to_numpy() for name in ("label", "confidence", "margin")}
    top = np.array(table["top5"].to_pylist(), dtype=np.int64)
    return Predictions(
        tuple(table["name"].to_pylist()),
        numbers["label"].astype(np.int64),
        top.reshape(len(table), -1),
        numbers["confidence"],
        numbers["margin"],
    )
