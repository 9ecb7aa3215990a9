"""What docs/diagnostics.md says in sentences, from the files of its tables."""

from __future__ import annotations

from math import sqrt

from catis.diagnostics.verdict import EXCESS, SOON
from tests.claims.diagnosed import (
    PAGE,
    above_matched,
    assumptions,
    critical,
    exponents,
    extent,
    first_order,
    fit,
    off,
    percent,
    rho,
    rows,
    vanilla_accuracy,
)
from tests.claims.walk import Claim, Values
from tests.test_doc_numbers import read

CLAIMS: list[Claim] = []


def claim(words: str, source: Values | str) -> None:
    CLAIMS.append(Claim(PAGE, words, source))


ALL = ("DeiT-Ti", "ViT-Ti", "ViT-B")
SIGNALS = ("pairwise", "pool", "s_nf", "s_cls", "fused")
UNARY = ("s_nf", "s_cls", "fused")

claim("100 images; shaded: {} % intervals", "the usual level")
claim("exact (Clopper-Pearson) {} % interval", "the usual level")
claim("the whole interval is beyond {} points: structural if rho_off is more than {} above", lambda: (5, EXCESS))
claim("r at {} % of r_crit or more", lambda: [100 * SOON])
claim("takes {} times the two vanilla forward passes", lambda: [read("diagnostics-cost.csv")[0]["ratio"]])
claim(
    "Intervals over images are about ± {} per block (n=1000), ± {} to {} on ViT-B",
    lambda: (
        max(extent(model, SIGNALS, range(12), True)[1] for model in ALL[:2]),
        *extent("ViT-B", SIGNALS, range(12), True),
    ),
)
for model, words in zip(
    ALL,
    (
        "Delta F goes from {}-{} in the first four blocks to {}-{} in the last three on DeiT-Ti",
        "from {}-{} to {}-{} on ViT-Ti",
        "from {}-{} to {}-{} on ViT-B",
    ),
    strict=True,
):
    claim(
        words, lambda m=model: [end for blocks in (range(4), range(9, 12)) for end in extent(m, ("frobenius",), blocks)]
    )
claim(
    "to {} on DeiT-Ti and {} on ViT-B (paper:",
    lambda: [rho(model, "pairwise", "deep") for model in ("DeiT-Ti", "ViT-B")],
)
claim("(paper: {}). Block 0", "the paper")
claim("does not show: {} to {}, far below", lambda: [f([rho(m, "pairwise", "0") for m in ALL]) for f in (min, max)])
claim(
    "steadily than pairs ({} and {} against {})",
    lambda: [rho("DeiT-Ti", s, "deep") for s in ("s_nf", "fused", "pairwise")],
)
claim("they tie ({} and {} against {})", lambda: [rho("ViT-B", s, "deep") for s in ("s_nf", "fused", "pairwise")])
claim(
    "the other way round ({} to {} against {})",
    lambda: [f(rho("ViT-Ti", s, "deep") for s in UNARY) for f in (min, max)] + [rho("ViT-Ti", "pairwise", "deep")],
)
claim(
    "every unary one on all three ({} to {} against {} to {}",
    lambda: [f(rho(m, s, "all") for m in ALL for s in few) for few in (("pairwise",), UNARY) for f in (min, max)],
)
claim("on ViT-B by {} only", lambda: [rho("ViT-B", "pairwise", "all") - max(rho("ViT-B", s, "all") for s in UNARY)])
claim('"No unary signal falls below {}"', "the paper")
claim(
    "fails (s_cls {} to {}, ViT-Ti s_nf {})",
    lambda: [f(rho(m, "s_cls", "deep") for m in ALL) for f in (min, max)] + [rho("ViT-Ti", "s_nf", "deep")],
)
claim(
    "on any of them ({} against {}; {} against {}; {} against {};",
    lambda: [rho(m, s, "deep") for m in ALL for s in ("pool", "pairwise")],
)
claim("the paper has {} against {}). With", "the paper")
claim("the pool holds {} to {} % of the tokens there", lambda: percent([rho(m, "pool_share", "deep") for m in ALL]))
claim("Vanilla: {} to {} on DeiT-Ti", lambda: [f(off("DeiT-Ti", "vanilla_rho_off")) for f in (min, max)])
claim("(paper: {} to {}), but", "the paper")
claim("but {} to {} on ViT-Ti", lambda: [f(off("ViT-Ti", "vanilla_rho_off")) for f in (min, max)])
claim('"below {} on all ViTs"', "the paper")
claim("its block 7 jumps from {} to {}", lambda: [off("ViT-Ti", "vanilla_rho_off", "tome", "r=23", b)[0] for b in "67"])
claim("ViT-B: {} to {}.", lambda: [f(off("ViT-B", "vanilla_rho_off")) for f in (min, max)])
claim("all five lie within {} of what", lambda: [max(map(abs, above_matched("DeiT-Ti")))])
claim("an approximation good to {} % in the tests", "tests/diagnostics/test_correlation.py")
claim(
    "agreement with vanilla falls to {}-{} %",
    lambda: percent([float(row["agreement"]) for row in rows("DeiT-Ti", "fits") if row["r"] == "r=23"]),
)
claim(
    "18 tokens, matched {}) it is {} ToMe, {} ToFu, {} PiToMe, {} CATIS, {} MCTF",
    lambda: (
        off("ViT-Ti", "matched", "tome", "r=23", "7")
        + [off("ViT-Ti", "rho_off", m, "r=23", "7")[0] for m in ("tome", "tofu", "pitome", "catis", "mctf")]
    ),
)
claim(
    "on ViT-B (matched {}) {} ToMe, {} CATIS, {} PiToMe",
    lambda: (
        off("ViT-B", "matched", "tome", "r=23", "7")
        + [off("ViT-B", "rho_off", m, "r=23", "7")[0] for m in ("tome", "catis", "pitome")]
    ),
)
claim(
    "those two models lie up to {} below `...` and {} above it",
    lambda: [f(f(above_matched(m)) for m in ("ViT-Ti", "ViT-B")) * sign for f, sign in ((min, -1), (max, 1))],
)
claim("chance alone gives 1 or {}", lambda: off("DeiT-Ti", "chance", "tome", "r=23", "10"))
claim("The paper's {} and {} in", "the paper")
claim(
    "CATIS included ({} against {})",
    lambda: [off("DeiT-Ti", c, "catis", "r=23", "11")[0] for c in ("rho_off", "vanilla_rho_off")],
)
claim("grows about as r^{} to r^{}", exponents)
claim(
    "nearly just add up ({} + {} against {})",
    lambda: [off("DeiT-Ti", c, "catis", "r=13", "11")[0] for c in ("merge_only", "evict_only", "distortion")],
)
claim("by R2 = {} (DeiT-Ti)", lambda: [fit("DeiT-Ti", "additive_R2")])
claim("Fitted jointly it reaches R2 {}", lambda: [fit("DeiT-Ti", "dual_R2")])
claim(
    "eviction costs more on both models ({} against {}; {} against {})",
    lambda: [fit(m, c) for m in ALL[:2] for c in ("evict_linear_seed", "merge_linear_seed")],
)
claim(
    "cannot tell from chance (± {} points)", lambda: [196 * sqrt(vanilla_accuracy() * (1 - vanilla_accuracy()) / 200)]
)
claim(
    "at r=12 ToMe changes {} % of the classes and loses {} points of accuracy",
    lambda: (
        100 * (1 - critical("DeiT-Ti", "tome", "agreement r=12")),
        100 * (vanilla_accuracy() - critical("DeiT-Ti", "tome", "accuracy r=12")),
    ),
)
claim("predicted ratio {}, measured {})", lambda: [first_order(c) for c in ("first_order_ratio", "ratio")])
claim("G_pair / G_unary: {} at d", lambda: [sum(assumptions("gradient_ratio", "6", "11")) / 2])
claim("there are N_p / {} times more pairs", "counted: N_p (N_p - 1) / 2 pairs of N_p tokens")
claim("not zero-mean ({}-{} % of the energy", lambda: percent(assumptions("mean_share")))
claim("effective dimensions {}-{} % of d", lambda: percent(assumptions("isotropy")))
claim("would show {} %)", lambda: [100 * assumptions("isotropy_expected")[0]])
claim("(mean cosine {}-{})", lambda: [f(assumptions("token_cosine")) for f in (min, max)])
claim(
    "blocks 6 and 11 (spread {}-{} %)",
    lambda: percent(assumptions("pair_spread", "6", "11") + assumptions("unary_spread", "6", "11")),
)
claim("absent in block 1 ({} %)", lambda: [100 * max(assumptions("unary_spread", "1"))])
