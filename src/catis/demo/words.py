"""The demo's sentences: what it does, what one gains, and what that is worth. All figures in them are measured."""

from __future__ import annotations

from catis.demo.findings import Findings
from catis.demo.settings import OURS, SHIFTS, Settings

SPARE = 0.01
"""Share of images that the sweet spot may lose."""
CAVEAT = "Tiny models, drawn images, small n: this shows the mechanism, not how an ImageNet model fares."
GLOSSARY = {
    "r_crit": "r_crit is the cliff: the smallest r that loses more than 5 points of accuracy. The paper says that it "
    "goes as k / L for a model of L blocks: the deeper the model, the fewer tokens each block may lose.",
    "rho_s": "Methods rank tokens to decide which go. rho_s says how alike the rankings of an image and of the same "
    "image with noise are: 1 is the same order, 0 none. A method that goes by a signal with a low rho_s removes other "
    "tokens whenever the image changes a little.",
    "rho_off": "rho_off is the mean correlation between different tokens of an image: when it rises, they all say the "
    "same. Fewer tokens raise it by themselves, so compare with the dashed lines.",
}
NEXT = """\
# NAME: a ViT of timm, such as deit_small_patch16_224, or a transformers folder
catis app --model NAME                             # drop a photo, move the budget
catis tune NAME --data FOLDER --budget 0.5 -o best # the best at half the cost
catis eval NAME --data imagenet=FOLDER --recipe best
catis.apply(model, recipe="best")                  # or budget=0.5, no search"""


def introduction(settings: Settings) -> str:
    """What is going to happen.

    Example:
        >>> introduction(Settings())[:46]
        'A Vision Transformer cuts an image into patche'
    """
    methods, models, shifts = (", ".join(names) for names in (settings.methods, settings.models, SHIFTS))
    return (
        f"A Vision Transformer cuts an image into patches, one token each: 144 here. Five methods ({methods}) remove r "
        f"of them in every block of small trained models ({models}; the number is how many blocks they have), without "
        f"retraining. Images are drawn on the spot from seed {settings.seed}: {settings.clean} clean, "
        f"{settings.shifted} shifted ({shifts})."
    )


def gains(findings: Findings) -> list[tuple[str, str]]:
    """Three numbers of the leading model under CATIS, with their words: speed, accuracy, and where the cliff is.

    The amount is the largest r that loses at most one point on the clean images; if none does, the smallest r tried.
    """
    model, limit = findings.settings.leading, findings.limits["clean"][findings.settings.leading, OURS]
    vanilla, *rows = [row for row in findings.rows if row.model == model and row.method in ("vanilla", OURS)]
    kept = [row for row in rows if row.accuracy["clean"] >= vanilla.accuracy["clean"] - SPARE]
    best = max(kept, key=lambda row: row.r) if kept else min(rows, key=lambda row: row.r)
    pair = findings.pairs[model, "clean", best.r, "vanilla"]
    before, after = (100 * row.accuracy["clean"] for row in (vanilla, best))
    return [
        (f"{best.speed_up:.2f} times as fast", f"{model}, {best.r} tokens removed in every block (r={best.r}), "
         f"{100 / best.ratio:.0f} % of the multiply-adds"),
        (f"{after:.1f} % right", f"instead of {before:.1f} % without reduction: {pair.points:+.1f} "
         f"points (95 % {pair.low:+.1f} to {pair.high:+.1f}, n={findings.n['clean']})"),
        (f"no cliff up to r={limit.r_max}" if limit.r is None else f"the cliff: r={limit.r}",
         "from there on more than 5 points are lost; the paper calls it r_crit"),
    ]  # fmt: skip


def honest_words(findings: Findings) -> str:
    """What these models show, and what not."""
    n = min(findings.n.values())
    reach = 100 * 1.96 * 0.5 / n**0.5
    return (
        f"These are real trained transformers, so what happens here happens to learned features and not to noise. "
        f"But they are tiny (width 96, 144 patches) and see 24 classes of drawings: nothing here says how an "
        f"ImageNet model fares. The deeper ones were grown from the shallower and their added blocks hardly do "
        f"anything, so the depths are relatives and not independent models, and a law over "
        f"{len(findings.settings.models)} of them is weak evidence. n is small: with {n} images an accuracy of 50 "
        f"% is known to ±{reach:.0f} points, differences on the same images somewhat better, and what is not "
        f"marked as a difference may be noise. CATIS runs with an untuned hand choice of its options. Times of "
        f"models this small on a CPU say little about larger ones: see docs/performance.md."
    )
