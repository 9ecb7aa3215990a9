"""The demo's sentences: what it does, what came out, and what that is worth. All figures in them are measured."""

from __future__ import annotations

from catis.demo.findings import OURS, Findings, Row
from catis.demo.settings import SHIFTS, Settings

__all__ = ["honest_words", "introduction", "summary"]


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


def summary(found: Findings) -> list[str]:
    """What came out, in a few sentences."""
    return [
        *(_spread(found, model) for model in found.settings.compared),
        _collapse(found),
        _pairs(found),
        _speed(found),
    ]


def _spread(found: Findings, model: str) -> str:
    """The amount at which the methods lie furthest apart on clean images."""
    vanilla, *rows = [row for row in found.rows if row.model == model]
    groups = [[row for row in rows if row.r == r] for r in sorted({row.r for row in rows})]
    low, high = max(((min(group, key=_clean), max(group, key=_clean)) for group in groups), key=_distance)
    return (
        f"{model} is right on {_clean(vanilla):.1f} % of the clean images. At r={high.r}, with "
        f"{100 / high.ratio:.0f} % of the multiply-adds, it is {_clean(high):.1f} % with {high.method} and "
        f"{_clean(low):.1f} % with {low.method}: the widest spread of the amounts tried."
    )


def _clean(row: Row) -> float:
    return 100 * row.accuracy["clean"]


def _distance(ends: tuple[Row, Row]) -> float:
    return _clean(ends[1]) - _clean(ends[0])


def _collapse(found: Findings) -> str:
    limits = found.limits["clean"].values()
    parts = []
    for depth in sorted({one.depth for one in limits}):
        at = [one.r if one.r is not None else one.r_max + 1 for one in limits if one.depth == depth]
        parts.append(f"{min(at)} to {max(at)} at L={depth}")
    return f"More than 5 points are lost from r = {', '.join(parts)}, depending on the method."


def _pairs(found: Findings) -> str:
    verdicts = [pair.verdict for pair in found.pairs.values()]
    better, worse = verdicts.count("better"), verdicts.count("worse")
    return (
        f"Against another method at the same r, on the same images, CATIS is better in {better} of {len(verdicts)} "
        f"comparisons, worse in {worse}, and in {len(verdicts) - better - worse} there is no difference that so few "
        f"images can show."
    )


def _speed(found: Findings) -> str:
    rows = [row for row in found.rows if row.method == OURS]
    low, high = (sorted(rows, key=lambda row: row.speed_up[0])[at] for at in (0, -1))
    return (
        f"Measured speed-up of CATIS: from {low.speed_up[0]:.2f}x ({low.model}, r={low.r}) to {high.speed_up[0]:.2f}x "
        f"({high.model}, r={high.r}, {high.ratio:.2f} times fewer multiply-adds)."
    )


def honest_words(found: Findings) -> str:
    """What these models show, and what not."""
    n = min(found.n.values())
    reach = 100 * 1.96 * 0.5 / n**0.5
    return (
        f"What this shows and what not: these are real trained transformers, so what happens here happens to learned "
        f"features and not to noise. But they are tiny (width 96, 144 patches) and see 24 classes of drawings: nothing "
        f"here says how an ImageNet model fares. The deeper ones were grown from the shallower and their added blocks "
        f"hardly do anything, so the depths are relatives and not independent models, and a law over "
        f"{len(found.settings.models)} of them is weak evidence. n is small: with {n} images an accuracy of 50 % is "
        f"known to ±{reach:.0f} points, differences on the same images somewhat better, and what is not marked as a "
        f"difference may be noise. CATIS runs with an untuned hand choice of its settings. Times of models this small "
        f"on a CPU say little about larger ones: see docs/performance.md."
    )
