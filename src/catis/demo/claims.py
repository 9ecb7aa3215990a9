"""What the paper claims beside what was measured, each with a verdict that is computed, never written down."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from typing import NamedTuple

from scipy import stats

from catis.demo.findings import Findings
from catis.demo.probes import Probed
from catis.demo.settings import OURS
from catis.diagnostics.estimates import Estimate, bands
from catis.evaluate.metrics import Difference
from catis.health.conclusion import telling_block

LEVEL = 0.05
"""Differences with a smaller p are called differences."""
PAPER_SLOPES = {"clean": {"catis": 186, "others": 161}, "shifted": {"catis": 223, "others": 203}}
UNSEEN = "no difference that so few images can show"
UNARY = ("s_nf", "s_cls", "fused")


class Claim(NamedTuple):
    """One claim in a few words, the paper's figure with its model, ours, and whether it comes out here."""

    claim: str
    paper: str
    here: str
    verdict: str


def verdict(pair: Difference) -> str:
    """Is the first of two methods "better", "worse", or is there "no difference" that so few images can show?"""
    if pair.p_value >= LEVEL:
        return "no difference"
    return "better" if pair.points > 0 else "worse"


def judge_claims(findings: Findings) -> list[Claim]:
    """All claims, accuracy first; the last, on speed, is the only one that rests on timings."""
    deep = findings.probed[findings.settings.compared[-1]]
    laws = [claim for view in findings.laws for claim in (_law(findings, view), _slope(findings, view))]
    of_probes = [judge(deep) for judge in (_falls, _unary, _fused, _pool, _vanilla_off, _off)]
    return [_accuracy(findings), *laws, *of_probes, _speed(findings)]


def _accuracy(findings: Findings) -> Claim:
    verdicts = [verdict(pair) for pair in findings.method_pairs().values()]
    better, worse = verdicts.count("better"), verdicts.count("worse")
    here = (
        f"of {len(verdicts)} paired comparisons at equal r: better in {better}, worse in {worse}, {UNSEEN} in "
        f"{len(verdicts) - better - worse}"
    )
    by_chance = stats.binom.ppf(1 - LEVEL, len(verdicts), LEVEL)  # as many marks as chance alone makes 19 times in 20
    if max(better, worse) <= by_chance:
        outcome = f"not shown: chance alone may mark up to {by_chance:.0f}"
    elif worse == 0:
        outcome = "better wherever a difference shows"
    elif better == 0:
        outcome = "no: worse wherever a difference shows"
    else:
        outcome = "mixed, " + ("more often better" if better > worse else "not more often better")
    paper = "yes, on 7 models (DeiT-3-L r=11: 75.3 %, next 68.3 %)"
    return Claim("CATIS is the most accurate at equal r", paper, here, outcome)


def _law(findings: Findings, view: str) -> Claim:
    fits = {method: law.fit for method, law in findings.laws[view].items() if law.fit is not None}
    here = ", ".join(f"{method} {fit.r_squared:.2f}" for method, fit in fits.items())
    held, methods = sum(fit.r_squared > 0.9 for fit in fits.values()), len(findings.laws[view])
    outcome = "yes" if held == methods else f"for {held} of {methods} methods"
    depths = len(findings.settings.models)
    return Claim(f"r_crit goes as 1/L ({view})", "R2 > 0.9, 7 models", f"R2 over {depths} depths: {here}", outcome)


def _slope(findings: Findings, view: str) -> Claim:
    laws = findings.laws[view]
    here = ", ".join(f"{method} {law.fit.slope:.0f}" for method, law in laws.items() if law.fit is not None)
    sides: dict[str, list[str]] = {"larger than": [], "smaller than": [], "no difference shown from": []}
    for method, law in laws.items():
        if method != OURS:
            low, high = laws[OURS].minus(law)
            side = "larger than" if low > 0 else "smaller than" if high < 0 else "no difference shown from"
            sides[side].append(method)
    outcome = "; ".join(f"{side} {', '.join(names)}" for side, names in sides.items() if names)
    paper = "k = {catis} against {others}".format(**PAPER_SLOPES[view])
    return Claim(f"CATIS has the larger slope k of r_crit = k / L ({view})", paper, f"k: {here}", outcome)


def _falls(deep: Probed) -> Claim:
    pairwise = deep.consistency["pairwise"]
    rho, distance = bands(pairwise), bands(deep.consistency["frobenius"])
    here = f"{rho['shallow']:.2f} to {rho['deep']:.2f}; Delta F {distance['shallow']:.0f} to {distance['deep']:.0f}"
    outcome = {"lower": "yes", "higher": "no: it rises"}.get(_against(rho["deep"], rho["shallow"], pairwise), UNSEEN)
    claim = f"pairwise rho_s falls from shallow to deep blocks ({deep.model})"
    return Claim(claim, "0.88 to 0.27; Delta F 25 to 78 (DeiT-3-B)", here, outcome)


def _unary(deep: Probed) -> Claim:
    level = bands(deep.consistency["pairwise"])["deep"]
    means = {name: bands(deep.consistency[name])["deep"] for name in UNARY}
    steadier = [n for n, mean in means.items() if _against(mean, level, deep.consistency[n]) == "higher"]
    here = ", ".join(f"{name} {mean:.2f}" for name, mean in means.items()) + f"; pairs {level:.2f}"
    outcome = "yes" if len(steadier) == len(means) else f"for {', '.join(steadier)} only" if steadier else "no"
    return Claim("in deep blocks unary signals rank more steadily than pairs", "0.37-0.48 against 0.27", here, outcome)


def _fused(deep: Probed) -> Claim:
    blocks = {name: deep.consistency[name] for name in UNARY}
    mean = {name: statistics.fmean(e.mean for e in blocks[name] if math.isfinite(e.mean)) for name in UNARY}
    here = f"{mean['fused']:.3f} against {mean['s_nf']:.3f} / {mean['s_cls']:.3f}"
    side = _against(mean["fused"], max(mean["s_nf"], mean["s_cls"]), blocks["fused"])
    outcome = {"higher": "yes", "lower": "no: between or below them"}.get(side, UNSEEN)
    return Claim("the fused signal is steadier than both its parts", "0.559 against 0.534 / 0.535", here, outcome)


def _pool(deep: Probed) -> Claim:
    pool, whole = (bands(deep.consistency[name])["deep"] for name in ("pool", "pairwise"))
    side = _against(pool, whole, deep.consistency["pool"])
    outcome = {"higher": "yes", "lower": "no: less steady"}.get(side, UNSEEN)
    here = f"{pool:.2f} against {whole:.2f}"
    return Claim("pairs in the merge pool rank more steadily, deep", "0.41 against 0.27", here, outcome)


def _vanilla_off(deep: Probed) -> Claim:
    means = [estimate.mean for estimate in deep.vanilla["rho_off"]]
    outcome = "yes" if min(means) >= 0.09 and max(means) <= 0.24 else "outside that range"
    return Claim("vanilla rho_off is low", "0.09-0.24", f"{min(means):.2f}-{max(means):.2f}", outcome)


def _off(deep: Probed) -> Claim:
    block = telling_block(next(iter(deep.reduced.values())))
    means = {name: blocks["rho_off"][block].mean for name, blocks in deep.reduced.items()}
    left = round(next(iter(deep.reduced.values()))["tokens"][block].mean)
    here = ", ".join(f"{name} {mean:.2f}" for name, mean in means.items())
    here += f"; vanilla on as few tokens {deep.matched[block]:.2f} (block {block + 1}, {left} left, r={deep.r})"
    raised = [name for name, mean in means.items() if mean - deep.matched[block] > 0.05]
    outcome = f"raised by more than 0.05: {', '.join(raised)}" if raised else "no: none is 0.05 above vanilla's level"
    return Claim("merging raises rho_off, CATIS does not", "ToMe 0.43, MCTF 0.41; PiToMe, CATIS 0.22", here, outcome)


def _speed(findings: Findings) -> Claim:
    rows = {method: [row for row in findings.rows if row.method == method] for method in findings.settings.methods}
    median = {method: statistics.median(row.efficiency for row in mine) for method, mine in rows.items()}
    here = "median efficiency: " + ", ".join(f"{method} {value:.2f}" for method, value in median.items())
    faster = sum(row.speed_up > 1 for row in rows[OURS])
    outcome = f"{median[OURS] / median['tome']:.2f} of ToMe's speed; "
    outcome += f"faster than vanilla in {faster} of {len(rows[OURS])} rows"
    paper = "2.54x and 2.53x for 2.8x fewer MACs (DeiT-3-B, A100)"
    return Claim("CATIS is as fast as ToMe (measured)", paper, here, outcome)


def _against(mean: float, other: float, blocks: Sequence[Estimate]) -> str:
    """Whether a band mean is higher or lower than another by more than two intervals of this many images reach."""
    reach = statistics.fmean((block.high - block.low) / 2 for block in blocks if math.isfinite(block.high))
    if abs(mean - other) <= math.sqrt(2) * reach:
        return "equal"
    return "higher" if mean > other else "lower"
