"""What docs/tuning.md says in sentences, from the file of its table."""

from __future__ import annotations

from catis.tuning.objective import CHOOSE, JUDGE
from tests.claims.walk import Claim, Values
from tests.test_doc_numbers import SHORT, read

PAGE = "docs/tuning.md"
CLAIMS: list[Claim] = []
RUNS = {(run["model"], run["budget"], run["view"], run["what"]): run for run in read("tuned.csv")}
TINY = ("DeiT-Ti", "ViT-Ti")


def claim(words: str, source: Values | str) -> None:
    CLAIMS.append(Claim(PAGE, words, source))


def run(model: str, budget: str, what: str = "tuned", view: str = "clean") -> dict[str, str]:
    return RUNS[SHORT[model], budget, view, what]


def top1(model: str, budget: str, what: str = "tuned") -> float:
    return float(run(model, budget, what)["top1"])


def mean(model: str, what: str) -> float:
    """Over the five views at 0.36."""
    own = [float(row["top1"]) for key, row in RUNS.items() if (key[0], key[1], key[3]) == (SHORT[model], "0.36", what)]
    assert len(own) == 5
    return sum(own) / 5


def at_a_third(model: str) -> list[float | str]:
    """Share of vanilla, lead over the smaller image with its p, least and largest lead over constant r."""
    tuned = run(model, "0.36")
    leads = [top1(model, "0.36") - top1(model, "0.36", what) for what in ("constant r", "constant r, mctf")]
    return [tuned["of_vanilla"], tuned["against_smaller"], tuned["p"], min(leads), max(leads)]


def lost_at_half() -> list[float]:
    return [top1(model, "0.5", "vanilla") - top1(model, "0.5") for model in TINY]


claim(
    "{} % of the images are searched and calibrated on, {} % accept or reject what was found, {} % are looked at once",
    lambda: [100 * (1 - CHOOSE - JUDGE), 100 * CHOOSE, 100 * JUDGE],
)
claim(
    "a loss of at most {} points, and says so when no budget does or when the images are too few to show it ({} point "
    "takes 381 images that judge",
    lambda: [5, 1],
)
claim("7 and 2 at {}, {} and {}; the clock ended every search", "by hand: the commands of the runs")
claim("Tuned rows at {} are of an earlier commit", "by hand: the commands of the runs")
claim("DeiT-Ti at {} was calibrated on all patch tokens", "by hand: the commands of the runs")
claim(
    "a first recipe of DeiT-Ti at {}, which kept 224 pixels, had {} % there and {} % under noise",
    "by hand: benchmarks/tuned.py on a recipe that was not kept",
)
claim(
    "At {} nothing is lost that 500 images could show: DeiT-Ti has {} %, ViT-Ti {} %",
    lambda: [0.8, *(top1(model, "0.8") for model in TINY)],
)
claim(
    "At {} DeiT-Ti keeps {} % of vanilla's accuracy on clean images, {} points ahead of the smaller image (p {}) and "
    "{} to {} points ahead of constant r",
    lambda: [0.36, *at_a_third("DeiT-Ti")],
)
claim(
    "ViT-Ti keeps {} %, {} points ahead (p {}) and {} to {} points ahead of constant r. The aim was {} %",
    lambda: [*at_a_third("ViT-Ti"), 93],
)
claim(
    "At {} DeiT-Ti loses {} points and ViT-Ti {} points; the aim was {} point. They are {} and {} points ahead of the "
    "smaller image",
    lambda: [0.5, *lost_at_half(), 1, *(run(model, "0.5")["against_smaller"] for model in TINY)],
)
claim(
    "a budget alone has {} % (DeiT-Ti) and {} % (ViT-Ti) at {}, {} % and {} % at {}",
    lambda: [
        *(top1(model, "0.36", "budget alone") for model in TINY),
        0.36,
        *(top1(model, "0.5", "budget alone") for model in TINY),
        0.5,
    ],
)
claim("At {} it is level with the tuned recipes", lambda: [0.5])
claim(
    "cluster's lead of {} points is not significant",
    lambda: [run["against_catis"] for run in read("triage.csv") if run["what"] == "cluster"],
)
claim(
    "over the five views at {}, DeiT-Ti has {} % and ViT-Ti {} %; vanilla {} % and {} %, the smaller image {} % and "
    "{} %",
    lambda: [0.36, *(mean(model, what) for what in ("tuned", "vanilla", "smaller image") for model in TINY)],
)
claim("constant r {} % and {} %. Both", lambda: [mean(model, "constant r") for model in TINY])
claim(
    "pixelated images at {}, where the recipes keep the full size; under noise at {} the difference", lambda: [0.5, 0.5]
)
claim(
    "ViT-B at {}, with the shape and method of a budget alone and weights calibrated on 280 photographs (one run, no "
    "search): it keeps {} % of vanilla's accuracy, {} points ahead of the smaller image (p {}). The aim was {} %",
    lambda: [0.36, *(run("ViT-B", "0.36")[key] for key in ("of_vanilla", "against_smaller", "p")), 97],
)
claim(
    "From {} on a budget alone loses nothing: {} % at {}, where vanilla has {} %, {} points ahead of the smaller image "
    "(p {}) and ahead of every other control",
    lambda: [
        0.5,
        top1("ViT-B", "0.5", "budget alone"),
        0.5,
        top1("ViT-B", "0.5", "vanilla"),
        *(run("ViT-B", "0.5", "budget alone")[key] for key in ("against_smaller", "p")),
    ],
)
claim(
    "a calibration at {} that kept early steps without asking for their standard error was farther from vanilla on 30 "
    "other images (KL {}, without it {})",
    "by hand: the page of a run of catis tune that was not kept",
)
CLAIMS.append(
    Claim(
        "README.md",
        "at which a ViT-B is right on {} % (vanilla {} %, a smaller image {} %)",
        lambda: [top1("ViT-B", "0.5", what) for what in ("budget alone", "vanilla", "smaller image")],
    )
)
CLAIMS.append(
    Claim(
        "README.md",
        "A ViT-Ti keeps {} % and a ViT-B {} % of its accuracy there",
        lambda: [run(model, "0.36")["of_vanilla"] for model in ("ViT-Ti", "ViT-B")],
    )
)
