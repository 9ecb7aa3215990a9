"""What the paper claims beside what was measured, each with a verdict that is computed, never written down."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from scipy import stats

from catis.demo.compare import LEVEL
from catis.demo.findings import OURS, Findings
from catis.demo.probes import Probed
from catis.diagnostics.estimates import Estimate, bands

__all__ = ["PAPER_SLOPES", "Claim", "judge_claims"]

PAPER_SLOPES = {"clean": {"catis": 186, "others": 161}, "shifted": {"catis": 223, "others": 203}}


@dataclass(frozen=True)
class Claim:
    """One claim.

    Attributes:
        claim: In a few words.
        paper: The paper's figure, with its model.
        here: Ours.
        verdict: Whether it comes out here.
    """

    claim: str
    paper: str
    here: str
    verdict: str


def judge_claims(found: Findings) -> list[Claim]:
    """All claims, accuracy first; the last, on speed, is the only one that rests on timings."""
    deep = found.probed[found.settings.compared[-1]]
    claims = [_accuracy(found)]
    for view in found.laws:
        claims += [_law(found, view), _slope(found, view)]
    return [
        *claims,
        _falls(deep),
        _unary(deep),
        _fused(deep),
        _pool(deep),
        _vanilla_off(deep),
        _off(deep),
        _speed(found),
    ]


def _accuracy(found: Findings) -> Claim:
    verdicts = [pair.verdict for pair in found.pairs.values()]
    better, worse = verdicts.count("better"), verdicts.count("worse")
    here = (
        f"of {len(verdicts)} paired comparisons at equal r: better in {better}, worse in {worse}, no difference that "
        f"so few images can show in {len(verdicts) - better - worse}"
    )
    by_chance = stats.binom.ppf(1 - LEVEL, len(verdicts), LEVEL)  # as many marks as chance alone makes 19 times in 20
    if max(better, worse) <= by_chance:
        verdict = f"not shown: chance alone may mark up to {by_chance:.0f}"
    elif worse == 0:
        verdict = "better wherever a difference shows"
    elif better == 0:
        verdict = "no: worse wherever a difference shows"
    else:
        verdict = "mixed, " + ("more often better" if better > worse else "not more often better")
    return Claim(
        "CATIS is the most accurate at equal r", "yes, on 7 models (DeiT-3-L r=11: 75.3 %, next 68.3 %)", here, verdict
    )


def _law(found: Findings, view: str) -> Claim:
    fits = {method: law.fit for method, law in found.laws[view].items() if law.fit is not None}
    here = ", ".join(f"{method} {fit.r_squared:.2f}" for method, fit in fits.items())
    models = len(found.settings.models)
    held = sum(fit.r_squared > 0.9 for fit in fits.values())
    verdict = "yes" if held == len(found.laws[view]) else f"for {held} of {len(found.laws[view])} methods"
    return Claim(f"r_crit goes as 1/L ({view})", "R2 > 0.9, 7 models", f"R2 over {models} depths: {here}", verdict)


def _slope(found: Findings, view: str) -> Claim:
    laws = found.laws[view]
    here = ", ".join(f"{method} {law.fit.slope:.0f}" for method, law in laws.items() if law.fit is not None)
    sides: dict[str, list[str]] = {"larger": [], "smaller": [], "no difference": []}
    for method, law in laws.items():
        if method != OURS:
            low, high = laws[OURS].minus(law)
            sides["larger" if low > 0 else "smaller" if high < 0 else "no difference"].append(method)
    words = {"larger": "larger than", "smaller": "smaller than", "no difference": "no difference shown from"}
    verdict = "; ".join(f"{words[side]} {', '.join(names)}" for side, names in sides.items() if names)
    paper = "k = {catis} against {others}".format(**PAPER_SLOPES[view])
    return Claim(f"CATIS has the larger slope k of r_crit = k / L ({view})", paper, f"k: {here}", verdict)


def _falls(deep: Probed) -> Claim:
    pairwise, far = deep.consistency["pairwise"], deep.consistency["frobenius"]
    a, b = bands(pairwise), bands(far)
    here = f"{a['shallow']:.2f} to {a['deep']:.2f}; Delta F {b['shallow']:.0f} to {b['deep']:.0f}"
    verdict = {"lower": "yes", "higher": "no: it rises"}.get(_against(a["deep"], a["shallow"], pairwise), UNSEEN)
    return Claim(
        f"pairwise rho_s falls from shallow to deep blocks ({deep.model})",
        "0.88 to 0.27; Delta F 25 to 78 (DeiT-3-B)",
        here,
        verdict,
    )


def _unary(deep: Probed) -> Claim:
    level = bands(deep.consistency["pairwise"])["deep"]
    means = {name: bands(deep.consistency[name])["deep"] for name in ("s_nf", "s_cls", "fused")}
    steadier = [n for n, m in means.items() if _against(m, level, deep.consistency[n]) == "higher"]
    here = ", ".join(f"{name} {mean:.2f}" for name, mean in means.items()) + f"; pairs {level:.2f}"
    verdict = "yes" if len(steadier) == len(means) else f"for {', '.join(steadier)} only" if steadier else "no"
    return Claim("in deep blocks unary signals rank more steadily than pairs", "0.37-0.48 against 0.27", here, verdict)


def _fused(deep: Probed) -> Claim:
    mean = {name: bands(deep.consistency[name])["layers"] for name in ("s_nf", "s_cls", "fused")}
    here = f"{mean['fused']:.3f} against {mean['s_nf']:.3f} / {mean['s_cls']:.3f}"
    side = _against(mean["fused"], max(mean["s_nf"], mean["s_cls"]), deep.consistency["fused"])
    verdict = {"higher": "yes", "lower": "no: between or below them"}.get(side, UNSEEN)
    return Claim("the fused signal is steadier than both its parts", "0.559 against 0.534 / 0.535", here, verdict)


def _pool(deep: Probed) -> Claim:
    pool, whole = (bands(deep.consistency[name])["deep"] for name in ("pool", "pairwise"))
    verdict = {"higher": "yes", "lower": "no: less steady"}.get(_against(pool, whole, deep.consistency["pool"]), UNSEEN)
    return Claim(
        "pairs in the merge pool rank more steadily, deep",
        "0.41 against 0.27",
        f"{pool:.2f} against {whole:.2f}",
        verdict,
    )


def _vanilla_off(deep: Probed) -> Claim:
    means = [one.mean for one in deep.vanilla["rho_off"]]
    inside = min(means) >= 0.09 and max(means) <= 0.24
    return Claim(
        "vanilla rho_off is low",
        "0.09-0.24",
        f"{min(means):.2f}-{max(means):.2f}",
        "yes" if inside else "outside that range",
    )


def _off(deep: Probed) -> Claim:
    block = deep.telling_block()
    means = {name: one["rho_off"][block].mean for name, one in deep.reduced.items()}
    left = round(next(iter(deep.reduced.values()))["tokens"][block].mean)
    here = ", ".join(f"{name} {mean:.2f}" for name, mean in means.items())
    here += f"; vanilla on as few tokens {deep.matched[block]:.2f} (block {block + 1}, {left} left, r={deep.r})"
    raised = [name for name, mean in means.items() if mean - deep.matched[block] > 0.05]
    verdict = f"raised by more than 0.05: {', '.join(raised)}" if raised else "no: none is 0.05 above vanilla's level"
    return Claim("merging raises rho_off, CATIS does not", "ToMe 0.43, MCTF 0.41; PiToMe, CATIS 0.22", here, verdict)


def _speed(found: Findings) -> Claim:
    means = {
        method: statistics.median(row.efficiency for row in found.rows if row.method == method)
        for method in found.settings.methods
    }
    here = "median efficiency: " + ", ".join(f"{method} {value:.2f}" for method, value in means.items())
    rows = [row for row in found.rows if row.method == OURS]
    faster = sum(row.speed_up[0] > 1 for row in rows)
    return Claim(
        "CATIS is as fast as ToMe (measured)",
        "2.54x and 2.53x for 2.8x fewer MACs (DeiT-3-B, A100)",
        here,
        f"{means[OURS] / means['tome']:.2f} of ToMe's speed; faster than vanilla in {faster} of {len(rows)} rows",
    )


UNSEEN = "no difference that so few images can show"


def _against(mean: float, other: float, layers: Sequence[Estimate]) -> str:
    """Whether a band mean is higher or lower than another by more than two intervals of this many images reach."""
    reach = statistics.fmean((one.high - one.low) / 2 for one in layers if math.isfinite(one.high))
    if abs(mean - other) <= math.sqrt(2) * reach:
        return "equal"
    return "higher" if mean > other else "lower"
