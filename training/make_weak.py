"""Fit the hard view's weak classifier on clean training images; writes ``src/catis/zoo/weights/weak.npy``."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from feed import read_images
from numpy.typing import NDArray

from catis.zoo import weak
from catis.zoo.objects import CLASSES


def fit(images: NDArray[np.uint8], labels: NDArray[np.int64], ridge: float = 3e6) -> NDArray[np.int16]:
    """Ridge regression on one-hot labels, rounded to integers."""
    x = np.stack([weak.features(image) for image in images]).astype(np.float64)
    y = np.eye(len(CLASSES))[labels] - 1 / len(CLASSES)
    w = np.linalg.solve(x.T @ x + ridge * np.eye(x.shape[1]), x.T @ y).T
    return np.round(w * (30000 / np.abs(w).max())).astype(np.int16)


def main() -> None:
    """Fit on 12000 training images, print the accuracy on the 960 validation images."""
    state = Path("/var/tmp/catis-train")
    train, val = read_images(state / "train.u8")[:12000], read_images(state / "val.u8")
    table = fit(train, np.arange(len(train)) % len(CLASSES))
    out = Path(__file__).parents[1] / "src/catis/zoo/weights" / weak.RESOURCE
    np.save(out, table, allow_pickle=False)
    hits = [weak.rank(image, i % len(CLASSES)) == 0 for i, image in enumerate(val)]
    print(f"weak classifier: {np.mean(hits):.3f} of {len(val)} validation images, {out.stat().st_size} bytes")


if __name__ == "__main__":
    main()
