"""From times to rows: percentiles, paired ratios against vanilla of the same case, efficiency, reasons."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from torch import nn

from catis import hosts
from catis.bench.explain import SUSPICIOUS, Evidence, explain, lost_time
from catis.bench.phases import Phases
from catis.bench.report import Row
from catis.bench.timing import Ratio, paired_ratio
from catis.bench.variants import VANILLA
from catis.core.reduction import Reduction
from catis.macs import count_macs


@dataclass(frozen=True)
class Facts:
    """What all rows of a model share: its name, the side of its input, its parameters, vanilla's multiply-adds."""

    model: str
    img_size: int
    param_count: int
    vanilla_macs: int

    @classmethod
    def of(cls, model: nn.Module, name: str) -> Facts:
        """Read them off a vanilla model."""
        parameters = sum(parameter.numel() for parameter in model.parameters())
        return cls(name, hosts.find(model).example_shape(1)[-1], parameters, macs_of(model))


def macs_of(model: nn.Module) -> int:
    """Multiply-adds of one image, under the reduction that is on the model."""
    handle = hosts.find(model)
    return count_macs(handle.cost(), handle.facts, handle.reduction)


@dataclass(frozen=True)
class Measured:
    """One variant in one case, as it was measured."""

    variant: Reduction  # which model: what is on it, as it was asked for
    batch_size: int  # images per pass
    compiled: bool  # whether under torch.compile
    macs: int  # multiply-adds per image
    tokens_last: int  # patch tokens after the last block
    seconds: Sequence[float] = ()  # of each timed pass; empty if it failed
    roofline: Sequence[float] = ()  # seconds of its matrix products alone in the same rounds; empty if not timed
    phases: Phases | None = None  # parts of the pass; None where they were not timed
    peak: int | None = None  # bytes; None if not taken
    compile_seconds: float | None = None  # of the first pass under torch.compile
    problem: str = ""  # why it failed
    file: str = ""  # name of the exported file that was run; empty for a model
    number_format: str = "float32"  # "int8" where its products are quantised


def rows_of(measured: Sequence[Measured], facts: Facts, reading: float | None = None) -> Iterator[Row]:
    """Rows, each compared with vanilla at the same batch size and in the same state of compilation."""
    baselines = [row for row in measured if row.variant == VANILLA]
    for row in measured:
        vanilla = _baseline(row, baselines)
        alike = (row.compiled, vanilla.number_format)
        largest = [other for other in baselines if (other.compiled, other.number_format) == alike and other.seconds]
        read = None if reading is None else reading * row.batch_size
        common: dict[str, Any] = _common(row, facts) | {"reading_ms": _ms(read)}
        if not row.seconds:
            yield Row(**common, infer_samples_per_sec=None, infer_step_time=None, error=row.problem)
        else:
            yield Row(**common, **_times(row), **_against(row, vanilla, facts, largest, read))


def _baseline(row: Measured, baselines: Sequence[Measured]) -> Measured:
    """Vanilla in the same case: in the row's number format where there is one, in another where not."""
    case = (row.compiled, row.batch_size)
    same_case = [other for other in baselines if (other.compiled, other.batch_size) == case]
    return next((other for other in same_case if other.number_format == row.number_format), same_case[0])


def _common(row: Measured, facts: Facts) -> dict[str, Any]:
    return {
        "model": facts.model,
        "infer_img_size": facts.img_size,
        "infer_batch_size": row.batch_size,
        "param_count": facts.param_count / 1e6,
        "infer_gmacs": row.macs / 1e9,
        "method": row.variant.method.name,
        "r": str(row.variant.schedule),
        "torchcompile": row.compiled,
        "file": row.file,
        "number_format": row.number_format if row.file else "",
        "tokens_last": row.tokens_last,
        "gmacs_ratio": facts.vanilla_macs / row.macs,
        "compile_seconds": row.compile_seconds,
        "peak_memory_mb": None if row.peak is None else row.peak / 2**20,
        "attention_map_ms": None if row.phases is None else _ms(row.phases.attention_map),
        "unfused_ms": None if row.phases is None else _ms(row.phases.unfused),
    }


def _times(row: Measured) -> dict[str, Any]:
    mean = float(np.mean(row.seconds))
    p50, p90, p99 = (1e3 * float(value) for value in np.percentile(row.seconds, (50, 90, 99)))
    return {
        "infer_samples_per_sec": row.batch_size / mean,
        "infer_step_time": 1e3 * mean,
        "p50_ms": p50,
        "p90_ms": p90,
        "p99_ms": p99,
        "rounds": len(row.seconds),
        "roofline_ms": _ms(float(np.median(row.roofline))) if row.roofline else None,
    }


def _against(
    row: Measured, vanilla: Measured, facts: Facts, baselines: Sequence[Measured], reading: float | None
) -> dict[str, Any]:
    speed = _ratio(vanilla.seconds, row.seconds)
    roofline = _ratio(vanilla.roofline, row.roofline)
    columns: dict[str, Any] = {"roofline_speedup": None if roofline is None else roofline.median}
    if speed is None:
        return columns
    evidence = _evidence(row, vanilla, facts, speed, baselines, reading)
    return columns | {
        "speedup": speed.median,
        "speedup_low": speed.low,
        "speedup_high": speed.high,
        "efficiency": evidence.efficiency,
        "suspicious": evidence.efficiency > SUSPICIOUS and not evidence.formats,
        **({} if row.variant == VANILLA else _lost(evidence)),
    }


def _lost(row: Evidence) -> dict[str, Any]:
    parts = lost_time(row)
    each = {f"{name}_ms": _ms(seconds) for name, seconds in parts.items()}
    return {**each, "lost_ms": _ms(sum(parts.values())), "reasons": tuple(explain(row))}


def _evidence(
    row: Measured, vanilla: Measured, facts: Facts, speed: Ratio, baselines: Sequence[Measured], reading: float | None
) -> Evidence:
    largest = max(baselines, key=lambda other: other.batch_size)
    both_timed = bool(row.roofline and vanilla.roofline)
    same = row.number_format == vanilla.number_format
    return Evidence(
        batch_size=row.batch_size,
        vanilla=float(np.median(vanilla.seconds)),
        reduced=float(np.median(row.seconds)),
        mac_ratio=facts.vanilla_macs / row.macs,
        speedup=speed.median,
        spread=(speed.low, speed.high),
        roofline_vanilla=float(np.median(vanilla.roofline)) if both_timed else None,
        roofline_reduced=float(np.median(row.roofline)) if both_timed else None,
        phases=row.phases,
        larger=(largest.batch_size, float(np.median(largest.seconds))),
        reading=reading,
        formats="" if same else f"{row.number_format} beside {vanilla.number_format}",
    )


def _ratio(slow: Sequence[float], fast: Sequence[float]) -> Ratio | None:
    """None if one of the two was not timed, or not in the same rounds."""
    return paired_ratio(slow, fast) if slow and len(slow) == len(fast) else None


def _ms(seconds: float | None) -> float | None:
    return None if seconds is None else 1e3 * seconds
