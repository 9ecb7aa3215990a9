"""The demo's numbers for other programs: all but the timings, as JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any

from catis.demo.claims import judge_claims
from catis.demo.findings import Findings
from catis.diagnostics.report import plain_values

LEFT_OUT = ("picture", "caption", "rounds", "speed_up", "draws")
"""Timings, what has a file of its own, and a thousand bootstrap samples each."""


def numbers_json(findings: Findings) -> str:
    """Everything but the timings: the same text for the same seed on one machine."""
    claims = [claim._asdict() for claim in judge_claims(findings)[:-1]]  # the last rests on timings
    return json.dumps(plain_values(_plain(findings) | {"claims": claims}), indent=1, allow_nan=False) + "\n"


def _plain(value: Any) -> Any:
    """Dataclasses as mappings; a mapping with several keys in one, such as (model, view, r), as a list of both."""
    if is_dataclass(value):
        return {field.name: _plain(getattr(value, field.name)) for field in fields(value) if field.name not in LEFT_OUT}
    if isinstance(value, Mapping) and any(isinstance(key, tuple) for key in value):
        return [{"of": list(key), "is": _plain(inner)} for key, inner in value.items()]
    if isinstance(value, Mapping):
        return {key: _plain(inner) for key, inner in value.items()}
    return [_plain(inner) for inner in value] if isinstance(value, list | tuple) else value
