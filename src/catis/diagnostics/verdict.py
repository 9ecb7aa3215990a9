"""The verdict: healthy, trigger soon, or collapsed and of what, with the numbers that led to it."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Literal

from catis.diagnostics.critical import DROP
from catis.diagnostics.estimates import Estimate, wilson

__all__ = ["Verdict", "judge"]

State = Literal["healthy", "trigger soon", "collapsed: structural", "collapsed: semantic"]
EXCESS = 0.05
"""rho_off above vanilla's at the same token count that is structural damage; the paper's data sets differ by 0.03."""
SOON = 0.8
"""Share of r_crit from which on the next step may be the one too many."""


@dataclass(frozen=True)
class Verdict:
    """State of a model at one r.

    Attributes:
        state: One of the four.
        reasons: Sentences with the numbers behind it.
        numbers: The numbers.
    """

    state: State
    reasons: tuple[str, ...]
    numbers: dict[str, float] = field(default_factory=dict)


def judge(agreement: Estimate | None, rise: float, r: float, r_crit: float | None) -> Verdict:
    """Judge a reduced model.

    Args:
        agreement: Images whose predicted class is vanilla's; None for a model without classifier.
        rise: rho_off of the reduced model over what vanilla's features show on as many tokens (`matched_level`).
        r: Tokens removed per block.
        r_crit: Measured or predicted r_crit; None if beyond reach.

    Example:
        >>> kept, lost = Estimate(0.99, 0.98, 1.0, 500), Estimate(0.6, 0.55, 0.65, 500)
        >>> judge(kept, 0.01, r=4, r_crit=12).state
        'healthy'
        >>> judge(lost, 0.21, r=23, r_crit=12).state
        'collapsed: structural'
        >>> judge(lost, 0.01, r=23, r_crit=12).state
        'collapsed: semantic'
    """
    structural = rise > EXCESS
    numbers = {"r": float(r), "rho_off_rise": rise, "r_crit": math.nan if r_crit is None else float(r_crit)}
    damage = f"rho_off is {rise:+.3f} over vanilla's on as many tokens ({'above' if structural else 'within'} {EXCESS})"
    if agreement is None:
        kept = "agreement was not measured: the model has no classifier"
    else:
        numbers |= {"agreement": agreement.mean, "n": float(agreement.n)}
        lost = f"{100 * (1 - agreement.mean):.1f} points of agreement with vanilla lost"
        kept = f"{lost} (limit {100 * DROP:.0f}; n={agreement.n}: +-{100 * _reach(agreement):.1f})"
    if agreement is not None and 1 - agreement.mean > DROP + 1e-9:
        return Verdict("collapsed: structural" if structural else "collapsed: semantic", (kept, damage), numbers)
    if agreement is None and structural:
        return Verdict("collapsed: structural", (kept, damage), numbers)
    if r_crit is not None and r >= SOON * r_crit:
        return Verdict("trigger soon", (kept, f"r={r:g} is at least {SOON:.0%} of r_crit={r_crit:g}", damage), numbers)
    reach = (
        "r_crit is beyond half of the tokens" if r_crit is None else f"r={r:g} is below {SOON:.0%} of r_crit={r_crit:g}"
    )
    return Verdict("healthy", (kept, reach, damage), numbers)


def _reach(agreement: Estimate) -> float:
    """Half of Wilson's 95 % interval, which does not shrink to nothing when every class stayed."""
    low, high = wilson(round(agreement.mean * agreement.n), agreement.n)
    return (high - low) / 200
