"""The demo's sentences: what it does, what came out, and what that is worth. All figures in them are measured."""

from __future__ import annotations

from catis.demo.claims import verdict
from catis.demo.findings import Findings, Row
from catis.demo.settings import OURS, SHIFTS, Settings

__all__ = ["NEXT", "honest_words", "introduction", "summary", "sweet_spots"]

SPARE = 0.01
"""Share of images that the sweet spot may lose."""
NEXT = """\
# NAME: a ViT of timm, such as deit_small_patch16_224, or a transformers folder
catis diagnose NAME --data FOLDER                    # how much it bears; no labels
catis eval NAME --data imagenet=FOLDER -m catis -r 8 # accuracy
catis bench NAME -m catis                            # speed on this machine
catis show PHOTO --model NAME --pretrained           # what merges, what goes
catis.apply(model, "catis", r=8)                     # in Python, in place"""


def introduction(settings: Settings) -> str:
    """What is going to happen.

    Example:
        >>> introduction(Settings())[:46]
        'tome, tofu, pitome, mctf, catis remove r of th'
    """
    methods, models, shifts = (", ".join(names) for names in (settings.methods, settings.models, SHIFTS))
    return (
        f"{methods} remove r of the 144 patch tokens in every block of small trained Vision Transformers ({models}; "
        f"the number is the depth L), without retraining. Images are made on the spot from seed {settings.seed}: "
        f"{settings.clean} clean, {settings.shifted} shifted ({shifts})."
    )


def sweet_spots(findings: Findings) -> list[str]:
    """For each model, the largest r at which CATIS loses nothing to speak of, and where the cliff is."""
    return [_sweet_spot(findings, model) for model in findings.settings.compared]


def _sweet_spot(findings: Findings, model: str) -> str:
    vanilla, *rows = [row for row in findings.rows if row.model == model and row.method in ("vanilla", OURS)]
    kept = [row for row in rows if row.accuracy["clean"] >= vanilla.accuracy["clean"] - SPARE]
    limit = findings.limits["clean"][model, OURS]
    cliff = "" if limit.r is None else f" From r={limit.r} on it loses more than 5 points (r_crit)."
    if not kept:
        return f"{model}: every r tried costs more than a point.{cliff}"
    best = max(kept, key=lambda row: row.r)
    pair = findings.pairs[model, "clean", best.r, "vanilla"]
    return (
        f"{model} with CATIS at r={best.r}: {best.speed_up[0]:.2f} times as fast, with {100 / best.ratio:.0f} % of the "
        f"multiply-adds, and right on {_clean(best):.1f} % of the clean images instead of {_clean(vanilla):.1f} % "
        f"({pair.points:+.1f} points, 95 % {pair.low:+.1f} to {pair.high:+.1f}).{cliff}"
    )


def summary(findings: Findings) -> list[str]:
    """What else came out, in a few sentences."""
    return [_collapse(findings), _pairs(findings), _speed(findings)]


def _clean(row: Row) -> float:
    return 100 * row.accuracy["clean"]


def _collapse(findings: Findings) -> str:
    limits = findings.limits["clean"].values()
    parts = []
    for depth in sorted({limit.depth for limit in limits}):
        at = [limit.r or limit.r_max + 1 for limit in limits if limit.depth == depth]
        parts.append(f"{min(at)} to {max(at)} at L={depth}")
    return f"More than 5 points are lost from r = {', '.join(parts)}, depending on the method."


def _pairs(findings: Findings) -> str:
    verdicts = [verdict(pair) for pair in findings.method_pairs().values()]
    better, worse = verdicts.count("better"), verdicts.count("worse")
    return (
        f"Against another method at the same r, on the same images, CATIS is better in {better} of {len(verdicts)} "
        f"comparisons, worse in {worse}, and in {len(verdicts) - better - worse} there is no difference that so few "
        f"images can show."
    )


def _speed(findings: Findings) -> str:
    rows = sorted((row for row in findings.rows if row.method == OURS), key=lambda row: row.speed_up[0])
    low, high = rows[0], rows[-1]
    return (
        f"Measured speed-up of CATIS: from {low.speed_up[0]:.2f}x ({low.model}, r={low.r}) to {high.speed_up[0]:.2f}x "
        f"({high.model}, r={high.r}, {high.ratio:.2f} times fewer multiply-adds)."
    )


def honest_words(findings: Findings) -> str:
    """What these models show, and what not."""
    n = min(findings.n.values())
    reach = 100 * 1.96 * 0.5 / n**0.5
    return (
        f"What this shows and what not: these are real trained transformers, so what happens here happens to learned "
        f"features and not to noise. But they are tiny (width 96, 144 patches) and see 24 classes of drawings: nothing "
        f"here says how an ImageNet model fares. The deeper ones were grown from the shallower and their added blocks "
        f"hardly do anything, so the depths are relatives and not independent models, and a law over "
        f"{len(findings.settings.models)} of them is weak evidence. n is small: with {n} images an accuracy of 50 % is "
        f"known to ±{reach:.0f} points, differences on the same images somewhat better, and what is not marked as a "
        f"difference may be noise. CATIS runs with an untuned hand choice of its options. Times of models this small "
        f"on a CPU say little about larger ones: see docs/performance.md."
    )
