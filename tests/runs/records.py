"""Records and predictions made up for tests."""

from typing import Any

import numpy as np

from catis.runs import Predictions, Record


def record(name: str = "tiny-6-tome-8-set-00", **changes: Any) -> Record:
    fields: dict[str, Any] = {
        "name": name, "model": "tiny-6", "settings": {}, "weights": "ab", "param_count": 706104,
        "preprocessing": {"size": [96, 96], "crop_pct": 1.0, "interpolation": "bicubic"}, "method": "tome", "r": 8,
        "schedule": "8", "amounts": [8, 8], "options": {"ratio": None}, "prop_attn": True, "data": "set",
        "corruption": None, "severity": None, "data_seed": 0, "data_fingerprint": "cd", "precision": "float32",
        "compiled": False, "seed": 0, "classes": 24, "n_total": 5, "n_read": 4, "n_broken": 1,
        "broken": [["x.png", "cut short"]], "correct1": 3, "correct5": 4, "top1": 75.0, "top1_low": 30.1,
        "top1_high": 95.4, "top5": 100.0, "top5_low": 51.0, "top5_high": 100.0, "agreement": None, "agreement_n": 0,
        "gmacs": 0.1, "gmacs_vanilla": 0.12, "gmacs_matching": 0.001, "patches": 144, "tokens": [136, 128],
        "versions": {"catis": "0"}, "environment": {"date": "today"},
    }  # fmt: skip
    return Record(**{**fields, **changes})


def predictions(n: int = 4, right: int = 3, seed: int = 0) -> Predictions:
    labels = np.arange(n, dtype=np.int64) % 5
    top = (labels[:, None] + np.arange(5)) % 5
    top[right:] = np.roll(top[right:], 1, axis=1)
    spread = np.random.default_rng(seed).random((2, n)).astype(np.float32)
    return Predictions(tuple(f"{i}.png" for i in range(n)), labels, top, spread[0], spread[1])
