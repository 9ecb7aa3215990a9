"""The record of one run, as JSON and as timm's CSV row; and names of runs and data sets, made from their content."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
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
    """One run. Everything but `environment` is the same, bit for bit, when the run is done again on like hardware."""

    name: str  # of the run, made from its content
    model: str  # as it was asked for
    settings: Mapping[str, Any]  # what was passed on to timm.create_model
    weights: str  # hash of its weights
    param_count: int  # number of its parameters
    preprocessing: Mapping[str, Any]  # size, crop_pct, crop_mode, mean, std, interpolation
    method: str  # name; "vanilla" for a run that removes nothing
    r: float | None  # tokens per block if one number says it (a fraction below 1 is a share), else None
    schedule: str  # the same as text, whatever the schedule; empty if nothing is removed or the method decides
    amounts: Sequence[int]  # patch tokens that each block removed
    options: Mapping[str, Any]  # all options of the method, defaults too
    prop_attn: bool  # whether attention counted sizes
    data: str  # name of the data set
    corruption: str | None  # of the images, or None
    severity: int | None  # of the corruption, or None
    data_seed: int  # of the corruption's random numbers
    data_fingerprint: str  # hash of the images' names, sizes and labels
    precision: str  # dtype or autocast
    compiled: bool  # whether torch.compile was used
    seed: int  # of torch's random numbers
    classes: int  # classes that were scored, 200 for ImageNet-A and -R
    n_total: int  # images in the data set
    n_read: int  # images that could be read: the denominator of every share below
    n_broken: int  # images that could not
    broken: Sequence[Sequence[str]]  # name and reason of each
    correct1: int  # images whose first class was right
    correct5: int  # images with the right class among the first five
    top1: float  # per cent of n_read
    top1_low: float  # lower end of its 95 % Wilson interval
    top1_high: float  # upper end
    top5: float  # per cent of n_read
    top5_low: float  # lower end of its 95 % Wilson interval
    top5_high: float  # upper end
    agreement: float | None  # per cent of images with the vanilla model's class; None if that was not run
    agreement_n: int  # images that both runs have
    gmacs: float  # giga multiply-adds per image
    gmacs_vanilla: float  # of the vanilla model
    gmacs_matching: float  # of choosing tokens, on top of gmacs
    patches: int  # patch tokens at the start
    tokens: Sequence[int]  # patch tokens after each block
    versions: Mapping[str, str]  # of catis, torch, timm
    predictions: str | None = None  # file beside the record with the predictions, None without one
    # What may differ between two runs of the same name: date, seconds, device, batch size, paths.
    environment: Mapping[str, Any] = field(default_factory=dict)
    schema: int = SCHEMA  # version of these fields
    calibrated: str = ""  # hash of the calibrated weights that were put on; empty if the model ran with its own
    # Other settings of the reduction, such as head_only; empty where none is set.
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


def digest(content: Any, size: int = 8) -> str:
    """Hash of plain data, as 2 * size hexadecimal digits.

    Example:
        >>> digest({"a": 1, "b": 2}) == digest({"b": 2, "a": 1})
        True
    """
    text = json.dumps(content, sort_keys=True, allow_nan=False)
    return hashlib.blake2b(text.encode(), digest_size=size).hexdigest()


def data_fingerprint(items: Iterable[tuple[str, int, int]], **facts: Any) -> str:
    """Hash of a data set: name, size in bytes and label of every image, and whatever else decides its pixels.

    Modification times are left out: a copy on another machine is the same data.

    Example:
        >>> data_fingerprint([("a.png", 10, 0)]) == data_fingerprint([("a.png", 10, 1)])
        False
    """
    return digest([sorted(items), facts], size=16)


def run_name(stem: Sequence[str], identity: Mapping[str, Any]) -> str:
    """A readable beginning, and a hash of everything that decides the result.

    Example:
        >>> run_name(["hf-hub:org/model", "tome", "r=8", "imagenet@fog:3"], {"seed": 0})
        'hf-hub-org-model-tome-r-8-imagenet-fog-3-...'
    """
    readable = re.sub(r"[^A-Za-z0-9_.]+", "-", "-".join(stem)).strip("-.")[:120]
    return f"{readable}-{digest(identity)}"
