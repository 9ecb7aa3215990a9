"""The fields of a record: what decides a run, what came out of it, what it cost, and where it was done."""

from __future__ import annotations

import json
import platform
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch
from torch import nn

from catis.core.budget import removed_from
from catis.core.reduction import Reduction
from catis.diagnostics.estimates import wilson
from catis.evaluate.images import Images
from catis.evaluate.loaded import LoadedModel
from catis.evaluate.metrics import agreement
from catis.evaluate.predict import Predicted
from catis.macs import compare_macs
from catis.recipes.made import versions
from catis.runs.predictions import Predictions
from catis.runs.spec import RunSpec


def identity_of(spec: RunSpec, reduction: Reduction, model: LoadedModel, images: Images) -> dict[str, Any]:
    """Everything that decides what a run computes, as fields of its record; the reduction is bound to the model."""
    scored = images.about.scored
    return {
        "model": Path(spec.model.name).name if Path(spec.model.name).is_dir() else spec.model.name,
        "settings": dict(spec.model.settings),
        "weights": model.weights,
        "preprocessing": json.loads(json.dumps(asdict(model.preprocessing))),  # as a record's file gives it back
        **_reduction_fields(Reduction.none() if reduction.is_vanilla else reduction),
        **({} if spec.correction is None else {"calibrated": spec.correction.digest}),  # other runs keep their names
        "data": spec.data.name,
        "corruption": spec.data.corruption,
        "severity": spec.data.severity,
        "data_seed": spec.data.seed,
        "data_fingerprint": images.about.fingerprint,
        "classes": model.num_classes if scored is None else len(scored),
        "precision": spec.precision,
        "compiled": spec.compile,
        "seed": spec.seed,
        "versions": versions(),
    }


def _reduction_fields(reduction: Reduction) -> dict[str, Any]:
    """The fields of a reduction, with the amount as one number, where it is one, and as text."""
    r = reduction.r
    text = "" if r is None or reduction.is_vanilla else str(reduction.schedule)
    told = reduction.to_json()
    known = {name: told.pop(name) for name in ("method", "options", "prop_attn")}
    counts = told.pop("r")
    told |= {"r": counts} if isinstance(counts, dict) and "kept" in counts else {}
    number = r if isinstance(r, (int, float)) else None
    return {**known, "r": number, "schedule": text, **({"further": told} if told else {})}


def outcome_of(images: Images, outcome: Predicted, vanilla: Predictions | None) -> dict[str, Any]:
    """What came out, with its denominators."""
    said = outcome.predictions
    n, hits = len(said), {k: int(said.correct(k).sum()) for k in (1, 5)}
    same, same_n = (None, 0) if vanilla is None else agreement(said, vanilla)
    shares: dict[str, Any] = {}
    for k, count in hits.items():
        low, high = wilson(count, n)
        shares |= {f"correct{k}": count, f"top{k}": 100 * count / n, f"top{k}_low": low, f"top{k}_high": high}
    return shares | {
        "n_total": len(images.about.names),
        "n_read": n,
        "n_broken": len(outcome.broken),
        "broken": [[item.name, item.reason] for item in outcome.broken],
        "agreement": same,
        "agreement_n": same_n,
    }


def cost_of(model: nn.Module, reduction: Reduction) -> dict[str, Any]:
    """Multiply-adds and tokens."""
    cost = compare_macs(model, reduction)
    return {
        "gmacs": cost.reduced,
        "gmacs_vanilla": cost.vanilla,
        "gmacs_matching": cost.overhead,
        "patches": cost.patches,
        "tokens": list(cost.tokens),
        "amounts": removed_from(cost.patches, cost.tokens),
    }


def environment_of(spec: RunSpec, outcome: Predicted, seconds: float) -> dict[str, Any]:
    """What may differ between two runs of the same name."""
    device = torch.device(spec.device)
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else platform.processor() or platform.machine()
    return {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "seconds": round(seconds, 3),
        "images_per_second": round(len(outcome.predictions) / seconds, 2),
        "batch_size": outcome.batch_size,
        "device": spec.device,
        "device_name": name,
        "threads": torch.get_num_threads(),
        "python": platform.python_version(),
        "platform": platform.platform(),
        "root": spec.data.root,
        "limit": spec.data.limit,
        "checkpoint": spec.model.checkpoint,
        "on_error": spec.on_error,
    }
