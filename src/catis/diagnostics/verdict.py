"""The verdict: healthy, trigger soon, collapsed and of what, or too few images, with the numbers that led to it."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Literal

from scipy import stats

from catis.diagnostics.critical import DROP
from catis.diagnostics.estimates import CONFIDENCE, Estimate

State = Literal["healthy", "trigger soon", "too few images to tell", "collapsed: structural", "collapsed: semantic"]
EXCESS = 0.05
"""rho_off above vanilla's at the same token count that is structural damage; the paper's data sets differ by 0.03."""
SOON = 0.8
"""Share of r_crit from which on the next step may be the one too many."""


@dataclass(frozen=True)
class Verdict:
    """State of a model at one r, sentences with the numbers behind it, and these numbers."""

    state: State
    reasons: tuple[str, ...]
    numbers: dict[str, float] = field(default_factory=dict)


def judge(agreement: Estimate | None, rise: float, r: float, r_crit: float | None) -> Verdict:
    """Judge a reduced model.

    Args:
        agreement: Images whose predicted class is vanilla's; None for a model without classifier.
        rise: rho_off of the reduced model over what vanilla's features show on as many tokens (`matched_level`).
        r: Tokens removed per block.
        r_crit: Measured or forecast r_crit; infinite if beyond reach, None if there is neither.

    Example:
        >>> kept, lost = Estimate(0.99, 0.98, 1.0, 500), Estimate(0.6, 0.55, 0.65, 500)
        >>> judge(kept, 0.01, r=4, r_crit=12).state
        'healthy'
        >>> judge(lost, 0.21, r=23, r_crit=12).state
        'collapsed: structural'
        >>> judge(lost, 0.01, r=23, r_crit=12).state
        'collapsed: semantic'
        >>> judge(Estimate(0.85, 0.64, 0.95, 20), 0.01, r=23, r_crit=12).state
        'too few images to tell'
    """
    structural = rise > EXCESS
    numbers = {"r": float(r), "rho_off_rise": rise, "r_crit": math.nan if r_crit is None else float(r_crit)}
    damage = f"rho_off is {rise:+.3f} over vanilla's on as many tokens ({'above' if structural else 'within'} {EXCESS})"
    collapsed: State = "collapsed: structural" if structural else "collapsed: semantic"
    if agreement is None:
        kept = "agreement was not measured: the model has no classifier"
        if structural:
            return Verdict(collapsed, (kept, damage), numbers)
    else:
        numbers |= {"agreement": agreement.mean, "n": float(agreement.n)}
        low, high = share_interval(agreement)
        lost = f"{100 * (1 - agreement.mean):.1f} points of agreement with vanilla lost"
        kept = f"{lost} (limit {100 * DROP:.0f}; n={agreement.n}: {100 * (1 - high):.1f} to {100 * (1 - low):.1f})"
        if low < 1 - DROP <= high:
            return Verdict("too few images to tell", (kept, "the limit lies inside the interval", damage), numbers)
        if high < 1 - DROP:
            return Verdict(collapsed, (kept, damage), numbers)
    if r_crit is not None and r >= SOON * r_crit:
        return Verdict("trigger soon", (kept, f"r={r:g} is at least {SOON:.0%} of r_crit={r_crit:g}", damage), numbers)
    return Verdict("healthy", (kept, _room(r, r_crit), damage), numbers)


def _room(r: float, r_crit: float | None) -> str:
    if r_crit is None:
        return "r_crit is not forecast: no image changed its class, so this probe says nothing of where it would"
    if math.isinf(r_crit):
        return "r_crit is beyond half of the tokens"
    return f"r={r:g} is below {SOON:.0%} of r_crit={r_crit:g}"


def share_interval(share: Estimate) -> tuple[float, float]:
    """Clopper and Pearson's exact 95 % interval of a share, inside [0, 1] also when every class stayed or n is 1."""
    ends = stats.binomtest(round(share.mean * share.n), share.n).proportion_ci(CONFIDENCE, method="exact")
    return float(ends.low), float(ends.high)
