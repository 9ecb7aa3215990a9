"""rho_s and Delta F against scipy and numpy on plain loops over images."""

import numpy as np
import pytest
import timm
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

import catis
from catis import hosts
from catis.diagnostics.consistency import (
    RankingConsistency,
    frobenius_distance,
    key_cosine,
    pairwise_consistency,
    unary_signals,
)
from catis.methods.catis import Catis


def keys(batch=3, tokens=12, width=5, seed=0):
    generator = torch.Generator().manual_seed(seed)
    clean = torch.randn(batch, tokens, width, generator=generator)
    return clean, clean + 0.7 * torch.randn(clean.shape, generator=generator)


def cosine(x):
    unit = x / np.linalg.norm(x, axis=1, keepdims=True)
    return unit @ unit.T


def test_key_cosine_is_numpys():
    clean, _ = keys()
    np.testing.assert_allclose(key_cosine(clean)[1].numpy(), cosine(clean[1].numpy()), atol=1e-6)


@settings(max_examples=25)
@given(st.integers(3, 20), st.integers(1, 4), st.integers(0, 1000))
def test_pairwise_is_scipys_on_the_strict_upper_triangle(tokens, batch, seed):
    clean, corrupted = (key_cosine(k.double()).float() for k in keys(batch, tokens, seed=seed))
    got = pairwise_consistency(clean, corrupted)
    upper = np.triu_indices(tokens, 1)
    for i in range(batch):
        a, b = clean[i].numpy()[upper], corrupted[i].numpy()[upper]
        np.testing.assert_allclose(got.rho[i], stats.spearmanr(a, b).statistic, atol=1e-12)
        np.testing.assert_allclose(got.frobenius[i], np.linalg.norm(clean[i] - corrupted[i]), rtol=1e-5)


def test_whole_matrix_is_an_option():
    clean, corrupted = (key_cosine(k) for k in keys())
    got = pairwise_consistency(clean, corrupted, whole=True).rho[0]
    want = stats.spearmanr(clean[0].flatten(), corrupted[0].flatten()).statistic
    np.testing.assert_allclose(got, want, atol=1e-12)
    assert got != pairwise_consistency(clean, corrupted).rho[0]


def test_pool_counts_pairs_with_both_tokens_inside():
    clean, corrupted = (key_cosine(k) for k in keys(2, 14))
    pool = torch.rand(2, 14, generator=torch.Generator().manual_seed(1)) < 0.6
    got = pairwise_consistency(clean, corrupted, pool).pool
    for i in range(2):
        inside = np.flatnonzero(pool[i].numpy())
        rows, columns = np.triu_indices(len(inside), 1)
        a, b = (m[i].numpy()[inside[rows], inside[columns]] for m in (clean, corrupted))
        np.testing.assert_allclose(got[i], stats.spearmanr(a, b).statistic, atol=1e-12)


def test_an_empty_pool_is_undefined_and_a_full_one_is_the_global_value():
    clean, corrupted = (key_cosine(k) for k in keys(1, 8))
    assert pairwise_consistency(clean, corrupted, torch.zeros(1, 8, dtype=torch.bool)).pool.isnan().all()
    full = pairwise_consistency(clean, corrupted, torch.ones(1, 8, dtype=torch.bool))
    assert full.pool == full.rho


@pytest.mark.parametrize("tokens", [1, 2])
def test_one_and_two_tokens_have_no_ranking_of_pairs(tokens):
    clean, corrupted = (key_cosine(k) for k in keys(2, tokens))
    assert pairwise_consistency(clean, corrupted).rho.isnan().all()


def test_constant_similarities_and_nan_are_undefined():
    same = key_cosine(torch.ones(1, 5, 3))
    assert pairwise_consistency(same, key_cosine(keys(1, 5)[0])).rho.isnan().all()
    broken = keys(2, 5)[0]
    broken[0, 0, 0] = torch.nan
    rho = pairwise_consistency(key_cosine(broken), key_cosine(keys(2, 5)[1])).rho
    assert rho.isnan().tolist() == [True, False]


def test_identical_images_have_rho_one_and_no_distance():
    clean = key_cosine(keys()[0])
    got = pairwise_consistency(clean, clean)
    assert torch.allclose(got.rho, torch.ones(3, dtype=torch.float64))
    assert (frobenius_distance(clean, clean) == 0).all()


@pytest.mark.parametrize("l_start", [0, 2])
def test_the_fused_signal_is_the_one_catis_decides_with(l_start):
    torch.manual_seed(0)
    model = timm.create_model("vit_tiny_patch16_224", img_size=64, depth=4, num_classes=3).eval()
    method = Catis(gamma=0.7, w_cls=0.3, l_start=l_start)
    catis.apply(model, method, r=2)
    handle = hosts.find(model)
    seen = []

    def record(block):
        attention = block.view.cls_attention()
        ours = unary_signals(block.view, attention, method.gamma, method.w_cls, method.l_start)["fused"]
        seen.append((ours - block.plan.notes["score"]).abs().max().item())

    with torch.inference_mode():
        handle.watch(torch.randn(2, 3, 64, 64), record)
    assert len(seen) == 4
    assert max(seen) < 1e-5


def test_accumulator_is_the_mean_over_images_whatever_the_batches():
    clean, corrupted = keys(7, 10)
    scores = {"fused": torch.randn(7, 10), "s_nf": torch.rand(7, 10)}
    other = {name: s + 0.3 * torch.randn(s.shape) for name, s in scores.items()}
    whole, parts = RankingConsistency(), RankingConsistency()
    whole.update(0, clean, corrupted, scores, other)
    for part in (slice(0, 1), slice(1, 4), slice(4, 7)):
        pick = [{name: s[part] for name, s in signals.items()} for signals in (scores, other)]
        parts.update(0, clean[part], corrupted[part], *pick)
    for name, estimates in whole.compute().items():
        again = parts.compute()[name][0]
        assert (estimates[0].n, again.n) == (7, 7)
        np.testing.assert_allclose(
            [again.mean, again.low, again.high], [estimates[0].mean, estimates[0].low, estimates[0].high]
        )
    rho = [stats.spearmanr(a, b).statistic for a, b in zip(scores["s_nf"], other["s_nf"], strict=True)]
    interval = stats.t.interval(0.95, 6, np.mean(rho), stats.sem(rho))
    found = whole.compute()["s_nf"][0]
    np.testing.assert_allclose((found.mean, found.low, found.high), (np.mean(rho), *interval), rtol=1e-9)


def test_plot_draws_on_the_axes_given():
    figure = pytest.importorskip("matplotlib.figure").Figure()
    metric = RankingConsistency()
    clean, corrupted = keys(3, 6)
    metric.update(0, clean, corrupted, {"fused": torch.rand(3, 6)}, {"fused": torch.rand(3, 6)})
    ax = figure.add_subplot()
    assert metric.plot(ax=ax) is ax
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["pairwise", "pool", "fused"]
