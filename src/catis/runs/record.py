"""The record of one run: what was run, what came out, and with which versions, as JSON and as timm's CSV row."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from catis.errors import CatisError
from catis.runs.spec import DataSpec

SCHEMA = 1
"""Version of the record's fields; a store may hold several."""


class DamagedRecordError(CatisError):
    """A file that should be a record is not one; the message says what is wrong with it."""


@dataclass(frozen=True)
class Record:
    """One run. Everything but `environment` is the same, bit for bit, whenever the same run is done on like hardware.

    Attributes:
        name: Of the run, made from its content.
        model: As it was asked for.
        settings: What was passed on to timm.create_model.
        weights: Hash of its weights.
        param_count: Number of its parameters.
        preprocessing: Size, crop_pct, crop_mode, mean, std, interpolation.
        method: Name; "vanilla" for a run that removes nothing.
        r: Tokens per block if one number says it (a fraction below 1 is a share), else None.
        schedule: The same as text, whatever the schedule; empty if nothing is removed or the method decides.
        amounts: Patch tokens that each block removed.
        options: All options of the method, defaults too.
        prop_attn: Whether attention counted sizes.
        further: Other settings of the reduction, such as head_only; empty where none is set.
        data: Name of the data set.
        corruption: Of the images, or None.
        severity: Of the corruption, or None.
        data_seed: Of the corruption's random numbers.
        data_fingerprint: Hash of the images' names, sizes and labels.
        precision: Dtype or autocast.
        compiled: Whether torch.compile was used.
        seed: Of torch's random numbers.
        classes: Classes that were scored, 200 for ImageNet-A and -R.
        n_total: Images in the data set.
        n_read: Images that could be read: the denominator of every share below.
        n_broken: Images that could not.
        broken: Name and reason of each.
        correct1: Images whose first class was right.
        correct5: Images with the right class among the first five.
        top1: Per cent of n_read.
        top1_low: Lower end of its 95 % Wilson interval.
        top1_high: Upper end.
        top5: Per cent of n_read.
        top5_low: Lower end of its 95 % Wilson interval.
        top5_high: Upper end.
        agreement: Per cent of images with the vanilla model's class; None if that was not run.
        agreement_n: Images that both runs have.
        gmacs: Giga multiply-adds per image.
        gmacs_vanilla: Of the vanilla model.
        gmacs_matching: Of choosing tokens, on top of gmacs.
        patches: Patch tokens at the start.
        tokens: Patch tokens after each block.
        versions: Of catis, torch, timm.
        predictions: File beside the record with the predictions, None without one.
        environment: What may differ between two runs of the same name: date, seconds, device, batch size, paths.
        schema: Version of these fields.
        calibrated: Hash of the calibrated weights that were put on; empty if the model ran with its own.
    """

    name: str
    model: str
    settings: Mapping[str, Any]
    weights: str
    param_count: int
    preprocessing: Mapping[str, Any]
    method: str
    r: float | None
    schedule: str
    amounts: Sequence[int]
    options: Mapping[str, Any]
    prop_attn: bool
    data: str
    corruption: str | None
    severity: int | None
    data_seed: int
    data_fingerprint: str
    precision: str
    compiled: bool
    seed: int
    classes: int
    n_total: int
    n_read: int
    n_broken: int
    broken: Sequence[Sequence[str]]
    correct1: int
    correct5: int
    top1: float
    top1_low: float
    top1_high: float
    top5: float
    top5_low: float
    top5_high: float
    agreement: float | None
    agreement_n: int
    gmacs: float
    gmacs_vanilla: float
    gmacs_matching: float
    patches: int
    tokens: Sequence[int]
    versions: Mapping[str, str]
    predictions: str | None = None
    environment: Mapping[str, Any] = field(default_factory=dict)
    schema: int = SCHEMA
    calibrated: str = ""
    further: Mapping[str, Any] = field(default_factory=dict)

    @property
    def data_title(self) -> str:
        """Name of the data set, with the corruption if there is one."""
        return DataSpec(self.data, corruption=self.corruption, severity=self.severity).title

    @property
    def method_title(self) -> str:
        """Name of the method, and whether calibrated weights ran with it."""
        return f"{self.method} calibrated" if self.calibrated else self.method

    def content(self) -> dict[str, Any]:
        """Everything that two runs of the same name share."""
        return {name: value for name, value in asdict(self).items() if name != "environment"}

    def to_json(self) -> str:
        """Readable JSON with a checksum, so that damage is seen."""
        content = asdict(self)
        return json.dumps({**content, "checksum": _checksum(content)}, indent=1, allow_nan=False) + "\n"

    @classmethod
    def from_json(cls, text: str) -> Record:
        """A record from its file's text.

        Raises:
            DamagedRecordError: It is cut short, changed, of another schema, or something else altogether.
        """
        try:
            content = json.loads(text)
        except ValueError as error:
            raise DamagedRecordError(f"not valid JSON: {error}") from error
        if not isinstance(content, dict) or "checksum" not in content:
            raise DamagedRecordError("no checksum in it: not a record of catis")
        if content.get("schema") != SCHEMA:
            raise DamagedRecordError(f"schema {content.get('schema')!r}: this catis reads {SCHEMA}")
        checksum = content.pop("checksum")
        if checksum != _checksum(content):
            raise DamagedRecordError("its checksum is not that of its content: the file was changed or damaged")
        content = {"calibrated": "", "further": {}, **content}  # older records do not say it
        unlike = {option.name for option in fields(cls)} ^ set(content)
        if unlike:
            raise DamagedRecordError(f"fields missing or unknown: {', '.join(sorted(unlike))}")
        return cls(**content)


def _checksum(content: Mapping[str, Any]) -> str:
    text = json.dumps(content, sort_keys=True, allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


def timm_row(record: Record) -> dict[str, Any]:
    """A row of a CSV file with the columns of timm's own results first, so that the two can be joined."""
    crop = record.preprocessing
    theirs = {
        "model": record.model,
        "top1": round(record.top1, 4), "top1_err": round(100 - record.top1, 4),
        "top5": round(record.top5, 4), "top5_err": round(100 - record.top5, 4),
        "param_count": round(record.param_count / 1e6, 2),
        "img_size": crop["size"][-1], "crop_pct": crop["crop_pct"], "interpolation": crop["interpolation"],
    }  # fmt: skip
    names = (
        "data", "corruption", "severity", "method", "schedule", "gmacs", "gmacs_vanilla", "n_total", "n_read",
        "n_broken", "top1_low", "top1_high", "top5_low", "top5_high", "agreement", "agreement_n", "precision", "name",
        "calibrated",
    )  # fmt: skip
    return theirs | {name: getattr(record, name) for name in names} | {"tokens": record.tokens[-1]}
