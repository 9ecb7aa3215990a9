"""Says why a row is slower than its multiply-adds promise, or faster than they allow, from the timings alone."""

from __future__ import annotations

from dataclasses import dataclass

from catis.bench.phases import Phases

SUSPICIOUS = 1.1
"""Efficiency above this is flagged: time saved that the multiply-adds do not account for."""
FAIR = 0.9
"""Efficiency from which nothing needs explaining: the rest is within the noise of a quiet machine."""
_UNSTEADY = 1.3  # third quartile over the first
_BUSY = 0.5  # share of matrix products in a pass below which the kernels wait for the calls
_UNSATURATED = 1.25  # an image this many times dearer than at the largest batch: the batch is too small


@dataclass(frozen=True)
class Evidence:
    """What was measured of one row, in seconds per pass of a batch."""

    batch_size: int  # images per pass
    vanilla: float  # vanilla's pass
    reduced: float  # the reduced model's pass
    mac_ratio: float  # vanilla's multiply-adds over the reduced model's
    speedup: float  # median over rounds
    spread: tuple[float, float] | None = None  # its quartiles
    roofline_vanilla: float | None = None  # vanilla's matrix products alone; None if they were not timed
    roofline_reduced: float | None = None  # the reduced model's products alone
    phases: Phases | None = None  # parts of the reduced pass; None where they cannot be told apart
    larger: tuple[int, float] | None = None  # (batch size, seconds) of vanilla at the largest batch timed
    reading: float | None = None  # seconds to read and prepare a batch; None if no images were given
    formats: str = ""  # "int8 beside float32" where vanilla's numbers are of another format; empty where they are alike

    @property
    def efficiency(self) -> float:
        """Speed-up over the ratio of multiply-adds: 1 means that every one saved is time saved."""
        return self.speedup / self.mac_ratio


def explain(row: Evidence) -> list[str]:
    """Reasons, most important first; empty for a row that is as fast as it should be.

    Example:
        >>> slow = Evidence(1, vanilla=0.024, reduced=0.020, mac_ratio=2.0, speedup=1.2, phases=Phases(choose=0.0078))
        >>> explain(slow)
        ['slower than the multiply-adds promise; most of the time lost goes to choosing tokens']
    """
    reasons = [_unsteady(row)]
    if row.formats:
        reasons.append(_other_format(row))
    elif row.efficiency > SUSPICIOUS:
        reasons.append(_too_good(row))
    elif row.efficiency < FAIR:
        reasons += [_account(row), _batch(row) or _overhead(row), _unfused(row), _attention_map(row)]
    return [told for told in (*reasons, _data(row)) if told]


def lost_time(row: Evidence) -> dict[str, float]:
    """Seconds by which the pass misses vanilla / MAC ratio, split by cause; the parts add up to the whole.

    Example:
        >>> parts = lost_time(Evidence(1, 0.020, 0.015, 2.0, 1.33, None, 0.016, 0.010, Phases(0.001, merge=0.001)))
        >>> {name: round(1e3 * seconds, 1) for name, seconds in parts.items()}
        {'products': 2.0, 'choosing': 1.0, 'merging': 1.0, 'bias': 0.0, 'rest': 1.0}
    """
    parts: dict[str, float] = {}
    if row.roofline_vanilla is not None and row.roofline_reduced is not None:
        parts["products"] = row.roofline_reduced - row.roofline_vanilla / row.mac_ratio
    if row.phases is not None:
        parts |= {"choosing": row.phases.choose, "merging": row.phases.merge, "bias": row.phases.bias}
    parts["rest"] = row.reduced - row.vanilla / row.mac_ratio - sum(parts.values())
    return parts


_WORDS = {
    "products": "the matrix products themselves, whose kernels do not get faster by as much as they get smaller",
    "choosing": "choosing tokens",
    "merging": "merging tokens",
    "bias": "the size bias in the attention kernel",
    "rest": "the rest: norms, activations, and the calls themselves",
}

_ALL_BUT_PRODUCTS = "what is not matrix products: choosing, merging, norms, activations, and the calls themselves"


def _account(row: Evidence) -> str:
    what = "slower than vanilla" if row.speedup < 1 else "slower than the multiply-adds promise"
    if row.roofline_vanilla is None and row.phases is None:
        return f"{what}; why is not known, as no part was timed"
    parts = lost_time(row)
    main = max(parts, key=lambda name: parts[name])
    cause = _ALL_BUT_PRODUCTS if main == "rest" and row.phases is None else _WORDS[main]
    return f"{what}; most of the time lost goes to {cause}"


def _batch(row: Evidence) -> str:
    """The same image costs less in a larger batch: kernels and calls are not filled."""
    if row.larger is None or row.larger[0] <= row.batch_size:
        return ""
    batch, seconds = row.larger
    here, there = row.vanilla / row.batch_size, seconds / batch
    if here < _UNSATURATED * there:
        return ""
    return (
        f"batch too small: vanilla takes {_ms(here)} ms an image at batch {row.batch_size}, {_ms(there)} at {batch}; "
        "what is left over is overhead, which fewer tokens do not shrink"
    )


def _overhead(row: Evidence) -> str:
    """Most of vanilla's pass is not multiply-adds at all."""
    if row.roofline_vanilla is None or row.roofline_vanilla > _BUSY * row.vanilla:
        return ""
    return (
        f"overhead-bound: matrix products are only {row.roofline_vanilla / row.vanilla:.0%} of vanilla's pass; "
        "fewer tokens shrink little of the rest, a larger batch or torch.compile may"
    )


def _unfused(row: Evidence) -> str:
    if row.phases is None or row.phases.unfused <= 0:
        return ""
    return (
        f"attention is not fused: the model writes out its attention maps, {_ms(row.phases.unfused)} ms more than "
        "scaled_dot_product_attention takes on the same tokens (timm: fused_attn, transformers: attn_implementation)"
    )


def _attention_map(row: Evidence) -> str:
    if row.phases is None or row.phases.attention_map <= 0:
        return ""
    return (
        f"the method needs the whole attention map, which the fused kernel never makes: going through it a second "
        f"time takes {_ms(row.phases.attention_map)} ms of the {_ms(row.phases.choose)} that choosing takes"
    )


def _too_good(row: Evidence) -> str:
    start = (
        f"efficiency {row.efficiency:.2f} is above {SUSPICIOUS}: fewer multiply-adds cannot save more time than they "
        "took, so something else differs"
    )
    if row.roofline_vanilla is None or row.roofline_reduced is None:
        return f"{start}; time vanilla again, alone and with fused attention, before quoting it"
    roofline = row.roofline_vanilla / row.roofline_reduced
    if roofline > SUSPICIOUS * row.mac_ratio:
        return f"{start}: the products alone are {roofline:.2f} times as fast, since fewer tokens fit the caches better"
    if row.phases is not None and row.phases.unfused > 0:
        return f"{start}: vanilla's attention is not fused, which makes the baseline slow"
    return (
        f"{start}; the products alone are only {roofline:.2f} times as fast, so vanilla was slow for another reason, "
        "such as other work on the machine: run it again before quoting it"
    )


def _other_format(row: Evidence) -> str:
    return (
        f"{row.formats}: the number format is part of this speed-up; to see what fewer tokens save alone, time it "
        "beside vanilla in the same format (--vanilla FILE)"
    )


def _data(row: Evidence) -> str:
    """Reading in the background hides behind computing, or the other way round."""
    if row.reading is None or row.reading <= row.reduced:
        return ""
    best = max(row.reading, row.vanilla) / max(row.reading, row.reduced)
    return (
        f"data-bound: reading a batch takes {_ms(row.reading)} ms, computing it {_ms(row.reduced)}; end to end, "
        f"with reading in the background, the speed-up is at most {best:.2f}"
    )


def _unsteady(row: Evidence) -> str:
    """Rounds that do not agree: no reason is worth more than they are."""
    if row.spread is None or row.spread[1] < _UNSTEADY * row.spread[0]:
        return ""
    return (
        f"unsteady: the quartiles are more than {_UNSTEADY} times apart, so something else is using the machine; run "
        "it again before believing any of this"
    )


def _ms(seconds: float) -> str:
    return f"{1e3 * seconds:.1f}"
