"""What a diagnosis found: plain numbers per block, the fits, the verdict, and their JSON."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

from catis.diagnostics.amplifier_fit import AmplifierFit
from catis.diagnostics.correlation import matched_levels
from catis.diagnostics.critical import CriticalR
from catis.diagnostics.dual_fit import DualFit
from catis.diagnostics.estimates import Estimate, bands
from catis.diagnostics.estimates import PerBlock as PerBlock
from catis.diagnostics.verdict import Verdict
from catis.files import write_whole


@dataclass(frozen=True)
class Diagnosis:
    """Result of `catis.diagnose`.

    Attributes:
        model: Class name of the model.
        method: Method that was probed.
        r: Its schedule, as a word.
        n: Images behind the numbers.
        depth: Blocks.
        num_patches: Patch tokens at the start.
        corruption: Corruption and severity behind rho_s.
        consistency: rho_s per signal and block, "frobenius" (Delta F) and "pool_share".
        vanilla: rho_off of the vanilla model: "rho_off", "chance", "excess", "tokens".
        reduced: The same of the reduced model.
        distortion: "distortion" of the reduced model, tokens "merged" and "evicted"; "merge_only" and "evict_only" if
            the method does both.
        amplifier: Fit to the distortion; None if there was nothing to fit.
        dual: Fit of both channels; None if the method has one.
        agreement: Share of classes that stayed; None for a model without classifier.
        r_crit_predicted: From this one probe; None if no r should lose 5 points.
        r_crit_measured: By bisection; None if it was not asked for.
        verdict: The verdict.
        broken: Images that could not be read: name and reason.
        complete: False when the run was interrupted and `n` is what it got to.
    """

    model: str
    method: str
    r: str
    n: int
    depth: int
    num_patches: int
    corruption: str
    consistency: PerBlock
    vanilla: PerBlock
    reduced: PerBlock
    distortion: PerBlock
    amplifier: AmplifierFit | None
    dual: DualFit | None
    agreement: Estimate | None
    r_crit_predicted: int | None
    r_crit_measured: CriticalR | None
    verdict: Verdict
    broken: tuple[tuple[str, str], ...] = ()
    complete: bool = True

    def bands(self) -> dict[str, dict[str, float]]:
        """rho_s of each signal in the shallow, middle and deep band and over all blocks."""
        return {name: dict(bands(blocks)) for name, blocks in self.consistency.items()}

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain values, NaN as None: ready for JSON."""
        fields: dict[str, Any] = plain_values(dataclasses.asdict(self))
        if self.amplifier is not None:
            fields["amplifier"]["growth"] = self.amplifier.growth
        return {**fields, "bands": plain_values(self.bands())}

    def _repr_html_(self) -> str:
        """What a notebook shows: the verdict, and the numbers that led to it."""
        title = f"{self.model}, {self.method} {self.r}, {self.n} images"
        reasons = "".join(f"<li>{escape(reason)}</li>" for reason in self.verdict.reasons)
        return f"<p><b>{escape(self.verdict.state)}</b>: {escape(title)}</p><ul>{reasons}</ul>"

    def save(self, path: str | Path) -> None:
        """Write JSON, whole or not at all."""
        write_whole(Path(path), (json.dumps(self.to_dict(), indent=1, allow_nan=False) + "\n").encode())


def plain_values(value: Any) -> Any:
    """Ready for JSON: text as keys, lists for sequences, None for what is not finite.

    Example:
        >>> plain_values({1: (math.nan, 2.0)})
        {'1': [None, 2.0]}
    """
    if isinstance(value, Mapping):
        return {str(key): plain_values(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain_values(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def rows(diagnosis: Diagnosis) -> list[dict[str, float]]:
    """The per-block table: one row per block, NaN where a column has no value there.

    "matched" is what vanilla's rho_off would be on as many tokens as the reduced model has left (`matched_levels`).

    Example:
        >>> import catis, numpy as np, timm
        >>> from catis.health.check import diagnose
        >>> model = timm.create_model("vit_tiny_patch16_224", depth=4, img_size=64, num_classes=10)
        >>> images = list(np.random.default_rng(0).integers(0, 256, (4, 64, 64, 3), dtype=np.uint8))
        >>> len(rows(diagnose(model, images, r=2)))
        4
    """
    columns: dict[str, list[Estimate]] = {f"rho_s {name}": blocks for name, blocks in diagnosis.consistency.items()}
    columns["delta_F"] = columns.pop("rho_s frobenius")
    columns["pool share"] = columns.pop("rho_s pool_share", [])
    columns |= {f"{name} vanilla": diagnosis.vanilla[name] for name in ("rho_off", "excess")}
    columns |= {f"{name} reduced": blocks for name, blocks in diagnosis.reduced.items()}
    columns |= dict(diagnosis.distortion)
    table = [
        {"block": float(block)}
        | {name: blocks[block].mean if block < len(blocks) else math.nan for name, blocks in columns.items()}
        for block in range(diagnosis.depth)
    ]
    for row, level in zip(table, matched_levels(diagnosis.vanilla, diagnosis.reduced), strict=True):
        row["matched"] = level
    return table
