"""The paper's choice of Theta: the grid agrees with the diagnostics it stands for, and the conditions are obeyed."""

import math
from dataclasses import replace

import pytest
import torch

from catis import zoo
from catis.diagnostics.estimates import bands
from catis.diagnostics.verdict import EXCESS
from catis.health.conclusion import off_rise
from catis.health.probes import ReducedProbe, VanillaProbe
from catis.methods.catis import Catis
from catis.tuning.diagnostic import choose_theta
from catis.tuning.signal_choice import GAMMA, L_START, W_CLS
from catis.tuning.triage_choice import EVICT_RATIO, TAU, TriageRow, best_triage


@pytest.fixture(scope="module")
def choice(model, pair):
    return choose_theta(model, *pair, r=4, batch_size=5)


def probed(model, pair, theta):
    probe = VanillaProbe(model, theta)
    with torch.inference_mode():
        reference = probe.step(*pair)
    return probe, reference


def test_every_combination_is_tried_and_the_best_is_taken(choice):
    starts = [start for start in L_START if start < 6]
    assert len(choice.signals) == 1 + len(GAMMA) * len(W_CLS) * len(starts)  # the default Theta is not on the grid
    assert len({(row.gamma, row.w_cls, row.l_start) for row in choice.signals}) == len(choice.signals)
    assert choice.rho_s == max(row.rho_s for row in choice.signals) >= choice.default_rho_s
    assert len(choice.triages) == len(TAU) * len(EVICT_RATIO)
    assert choice.n == 8


@pytest.mark.parametrize("which", ["default", "chosen", "another"])
def test_rho_s_is_what_the_diagnosis_says(model, pair, choice, which):
    row = {"default": choice.signals[0], "another": choice.signals[17]}.get(which)
    theta = choice.theta if row is None else Catis(gamma=row.gamma, w_cls=row.w_cls, l_start=row.l_start)
    expected = bands(probed(model, pair, theta)[0].consistency.compute()["fused"])["all"]
    assert (choice.rho_s if row is None else row.rho_s) == pytest.approx(expected, abs=1e-6)
    if which == "default":
        assert theta == Catis()
        assert choice.default_rho_s == row.rho_s


def test_triage_is_what_the_probes_say(model, pair, choice):
    row = next(row for row in choice.triages if (row.tau, row.evict_ratio) == (1.0, 0.5))
    theta = replace(choice.theta, tau=1.0, evict_ratio=0.5)
    vanilla, reference = probed(model, pair, theta)
    reduced = ReducedProbe(model, theta, 4)
    with torch.inference_mode():
        reduced.step(pair[0], reference)
    assert row.rise == pytest.approx(off_rise(vanilla.off.compute(), reduced.off.compute()), abs=1e-6)
    assert row.pool == pytest.approx(bands(vanilla.consistency.compute()["pool"])["all"], abs=1e-6)
    assert row.excess == pytest.approx(row.rho_off - row.chance)
    assert 0 <= row.occupied <= 1


def test_the_conditions_are_obeyed(choice):
    allowed = [row for row in choice.triages if row.rise <= EXCESS and row.occupied >= 0.5]
    assert allowed
    assert choice.allowed
    assert choice.triage in allowed
    assert choice.triage.pool == max(row.pool for row in allowed)
    assert choice.options == {
        **{name: getattr(choice.theta, name) for name in ("gamma", "w_cls", "l_start")},
        "tau": choice.triage.tau,
        "evict_ratio": choice.triage.evict_ratio,
    }


def triage(tau, pool, rise, occupied=1.0):
    return TriageRow(tau, 0.5, pool, 0.3, 0.1, rise, occupied)


def test_what_is_taken_where_a_condition_cannot_be_met():
    outside, lower, empty = triage(1, 0.9, 0.2), triage(2, 0.8, 0.1), triage(3, 0.7, 0.0, occupied=0.1)
    assert best_triage([outside, lower]) is lower  # none inside the envelope: the one that leaves it least
    assert best_triage([outside, lower, empty]) is empty
    assert best_triage([empty, triage(4, 0.1, 0.0)]).tau == 4
    assert best_triage([empty, triage(9, 0.1, 0.0, occupied=0.3)]).tau == 9  # the nearest to what is wanted
    assert best_triage([triage(5, 0.6, 0.04), triage(6, 0.6, 0.01)]).tau == 6
    assert best_triage([triage(7, math.nan, 0.0), triage(8, 0.2, 0.0)]).tau == 8


def test_a_tau_that_empties_the_ends_is_not_allowed(choice):
    by_tau = {tau: [row.occupied for row in choice.triages if row.tau == tau] for tau in TAU}
    assert max(by_tau[TAU[-1]]) <= min(by_tau[TAU[0]])


def test_the_model_is_as_it_was_and_progress_ends(model, pair):
    model.train()
    told = []
    choose_theta(model, pair[0][:2], pair[1][:2], r=[4, 0, 4, 0, 4, 0], progress=lambda *at: told.append(at))
    assert model.training
    assert "catis_reduction" not in vars(model)
    assert told[-1] == (17, 17)
    assert [done for done, _ in told] == sorted(done for done, _ in told)
    model.eval()


def test_without_cls_only_s_nf_is_left(pair):
    gap = choose_theta(zoo.load("tiny-12-gap"), pair[0][:3], pair[1][:3], r=2)
    assert len(gap.signals) == 1
    assert gap.rho_s == gap.default_rho_s
    assert math.isfinite(gap.rho_s)


@pytest.mark.parametrize("n", [0, 3])
def test_other_images_are_refused(model, pair, n):
    with pytest.raises(ValueError, match="the same images in the same order"):
        choose_theta(model, pair[0][:n], pair[1][:4] if n else pair[1][:0], r=2)
