"""Turns what the probes gathered into a diagnosis: fits, the predicted r_crit, the verdict."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from catis.diagnostics.amplifier_fit import AmplifierFit, fit_amplifier, jackknife_beta
from catis.diagnostics.correlation import matched_level
from catis.diagnostics.critical import CriticalR
from catis.diagnostics.dual_fit import DualFit, fit_dual
from catis.diagnostics.estimates import Estimate, PerBlock
from catis.diagnostics.prediction import predict_critical_r, steps_seen
from catis.diagnostics.report import Diagnosis
from catis.diagnostics.verdict import Verdict, judge
from catis.health.probes import ReducedProbe, VanillaProbe

TOKENS_TO_TELL = 16
"""Fewest tokens at which rho_off still says something of the features: chance alone gives 0.21 there."""


def conclude(
    vanilla: VanillaProbe,
    reduced: ReducedProbe,
    model: str,
    corruption: str,
    broken: tuple[tuple[str, str], ...] = (),
    complete: bool = True,
    measured: CriticalR | None = None,
) -> Diagnosis:
    """Fit, predict and judge what two probes have gathered."""
    distortion = reduced.distortion.compute()
    fit, dual = _fit(reduced, distortion), _fit_dual(reduced, distortion)
    distortion |= {name: channel.compute()["distortion"] for name, channel in reduced.apart.items()}
    predicted = _predict(reduced, fit)
    return Diagnosis(
        model=model,
        method=reduced.method.name,
        r=reduced.schedule.label,
        n=vanilla.n,
        depth=reduced.facts.depth,
        num_patches=reduced.num_patches,
        corruption=corruption,
        consistency=vanilla.consistency.compute(),
        vanilla=vanilla.off.compute(),
        reduced=reduced.off.compute(),
        distortion=distortion,
        amplifier=fit,
        dual=dual,
        agreement=reduced.agreement(),
        r_crit_predicted=predicted,
        r_crit_measured=measured,
        verdict=_judge(vanilla, reduced, distortion, _reachable(reduced, predicted, measured)),
        broken=broken,
        complete=complete,
    )


def _judge(
    vanilla: VanillaProbe, reduced: ReducedProbe, distortion: dict[str, list[Estimate]], r_crit: float | None
) -> Verdict:
    wanted = reduced.schedule.r
    removed = sum(_means(distortion["merged"])) + sum(_means(distortion["evicted"]))
    r = wanted if isinstance(wanted, int) else removed / reduced.facts.depth
    return judge(reduced.agreement(), off_rise(vanilla.off.compute(), reduced.off.compute()), r, r_crit)


def _reachable(reduced: ReducedProbe, predicted: int | None, measured: CriticalR | None) -> float | None:
    """r_crit as far as it is known: infinite beyond half of the tokens, None where nothing was forecast."""
    if measured is None and not reduced.flipped:
        return None
    r_crit = predicted if measured is None else measured.r
    return math.inf if r_crit is None else r_crit


def off_rise(vanilla: PerBlock, reduced: PerBlock) -> float:
    """rho_off over vanilla's at the same token count, after the deepest block that leaves enough tokens to tell."""
    block = telling_block(reduced)
    before, after = vanilla["tokens"][block].mean, reduced["tokens"][block].mean
    return reduced["rho_off"][block].mean - matched_level(vanilla["rho_off"][block].mean, round(before), round(after))


def telling_block(reduced: PerBlock) -> int:
    """The deepest block that leaves enough tokens for rho_off to say something of the features.

    With a handful of tokens every correlation is near 1 by chance alone, whatever the method did (two tokens: exactly
    1). Where no block leaves enough, the first one has to do.
    """
    enough = [block for block, e in enumerate(reduced["tokens"]) if e.n and e.mean >= TOKENS_TO_TELL]
    return max(enough, default=0)


def _means(estimates: Sequence[Estimate]) -> list[float]:
    return [estimate.mean for estimate in estimates]


def _steps(probe: ReducedProbe, amounts: Sequence[float]) -> tuple[slice, list[float]]:
    """Blocks to fit, and the operations felt in each: a CLS token cannot feel the first block's reduction."""
    return slice(int(probe.facts.has_cls), None), steps_seen(list(amounts), probe.facts.has_cls)


def _fit(probe: ReducedProbe, distortion: dict[str, list[Estimate]]) -> AmplifierFit | None:
    merged, evicted = _means(distortion["merged"]), _means(distortion["evicted"])
    use, steps = _steps(probe, [a + b for a, b in zip(merged, evicted, strict=True)])
    measured = _means(distortion["distortion"])[use]
    if len(measured) < 3 or sum(steps) == 0 or max(measured) <= 0:
        return None
    fit = fit_amplifier(measured, steps[use])
    left = probe.distortion.leave_one_out().numpy()[:, use]
    if not np.isfinite(left).all():
        return fit
    low, high = jackknife_beta(fit, left, steps[use])
    return AmplifierFit(**{**fit.__dict__, "beta_low": low, "beta_high": high})


def _fit_dual(probe: ReducedProbe, distortion: dict[str, list[Estimate]]) -> DualFit | None:
    if not probe.apart:
        return None
    use, merged = _steps(probe, _means(distortion["merged"]))
    _, evicted = _steps(probe, _means(distortion["evicted"]))
    if len(merged[use]) < 3:
        return None
    apart = {name: _means(channel.compute()["distortion"])[use] for name, channel in probe.apart.items()}
    both = _means(distortion["distortion"])[use]
    return fit_dual(both, apart["merge_only"], apart["evict_only"], merged[use], evicted[use])


def _predict(probe: ReducedProbe, fit: AmplifierFit | None) -> int | None:
    if fit is None or not probe.flipped:  # with no flip there is nothing to tell the tolerance from
        return None
    return predict_critical_r(
        fit.channel, probe.flips.compute(), probe.schedule, probe.facts.depth, probe.num_patches, probe.facts.has_cls
    )
