"""Predictions as a Parquet file, so that anything that reads tables can read them."""

from __future__ import annotations

import io

import numpy as np

from catis.runs.predictions import Predictions


def to_parquet(predictions: Predictions) -> bytes:
    """The file's bytes: name, label, predicted, top5 (best first), confidence, margin."""
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
