"""What docs/tuning.md says in sentences, from the file of its table."""

from __future__ import annotations

from catis.tuning.objective import CHOOSE, JUDGE
from catis.tuning.teacher import UNSURE
from tests.claims.walk import Claim, Values
from tests.test_doc_numbers import SHORT, read

PAGE = "docs/tuning.md"
CLAIMS: list[Claim] = []
RUNS = {(run["model"], run["budget"], run["view"], run["what"]): run for run in read("tuned.csv")}
TINY = ("DeiT-Ti", "ViT-Ti")
NOISE = "gaussian_noise 3"
UNTUNED = ("budget alone", "budget, 192 pixels")
BUDGETS = ("0.36", "0.5", "0.65", "0.8")


def claim(words: str, source: Values | str) -> None:
    CLAIMS.append(Claim(PAGE, words, source))


def run(model: str, budget: str, what: str = "tuned", view: str = "clean") -> dict[str, str]:
    return RUNS[SHORT[model], budget, view, what]


def top1(model: str, budget: str, what: str = "tuned") -> float:
    return float(run(model, budget, what)["top1"])


def mean(model: str, what: str, budget: str = "0.36") -> float:
    """Over the five views."""
    own = [float(row["top1"]) for key, row in RUNS.items() if (key[0], key[1], key[3]) == (SHORT[model], budget, what)]
    assert len(own) == 5
    return sum(own) / 5


def at_a_third(model: str) -> list[float | str]:
    """Share of vanilla, lead over the smaller image with its p, least and largest lead over constant r."""
    tuned = run(model, "0.36")
    leads = [top1(model, "0.36") - top1(model, "0.36", what) for what in ("constant r", "constant r, mctf")]
    return [tuned["of_vanilla"], tuned["against_smaller"], tuned["p"], min(leads), max(leads)]


def under_noise(budget: str) -> list[str]:
    """Tuned and fed a smaller image, of both tiny models."""
    return [run(model, budget, what, NOISE)["top1"] for model in TINY for what in ("tuned", "smaller image")]


def ranks(what: str) -> list[float]:
    """Rank correlation of rates and rho_s, of the recipes of the tiny models."""
    own = [SHORT[model] for model in TINY]
    return [
        float(row["rho_s_of_rates"]) for row in read("schedules.csv") if row["model"] in own and row["what"] == what
    ]


def from_catis(what: str) -> list[str]:
    """Points from CATIS by default under a tuned schedule, of both tiny models."""
    return [row["against_catis"] for row in read("triage.csv") if row["what"] == what]


def ahead_on_pixelated() -> list[float]:
    """The budgets at which the smaller image is ahead of both tiny models."""
    views = {budget: [run(model, budget, "tuned", "pixelate 3") for model in TINY] for budget in BUDGETS}
    return [float(budget) for budget, own in views.items() if all(float(row["against_smaller"]) < 0 for row in own)]


def ahead_of_all(p: float) -> list[float]:
    """The budgets at which tuned recipes are ahead of every control on clean images, each with less than p."""
    clean = [row for row in read("paired.csv") if (row["what"], row["view"]) == ("tuned", "clean")]
    behind = {row["budget"] for row in clean if float(row["points"]) <= 0 or float(row["p"]) >= p}
    return sorted({float(row["budget"]) for row in clean if row["budget"] not in behind})


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
claim("a size must be nearer by as much (the ratio of its entropies to the power of {})", lambda: [UNSURE])
RUNS_BY_HAND = "by hand: the commands of the runs"
claim("with M = 15, 15, 7 and 4 at {}, {}, {} and {}; the clock ended every search", RUNS_BY_HAND)
claim(
    "the size is kept: on the tiny models from somewhere between {} and {} on",
    "by hand: 250 images of the half that tunes, at 0.42, 0.5, 0.58, 0.65 and 0.8",
)
claim("feed DeiT-Ti 192 pixels at {} and 208 at {}, ViT-Ti 192", "by hand: input_size of the recipes")
claim(
    "a budget alone goes at {} from {} % and {} % to {} % and {} % on clean images, and from {} % and {} % to {} % and "
    "{} % over the five views",
    lambda: [
        0.5,
        *(top1(model, "0.5", what) for what in UNTUNED for model in TINY),
        *(mean(model, what, "0.5") for what in UNTUNED for model in TINY),
    ],
)
claim(
    "A budget alone, which keeps 224 pixels, loses {} and {} points; what the smaller inputs of the tuned ones bring "
    "is under shift, {} and {} points over the five views",
    lambda: [
        *(top1(model, "0.5", "vanilla") - top1(model, "0.5", "budget alone") for model in TINY),
        *(mean(model, "tuned", "0.5") - mean(model, "budget alone", "0.5") for model in TINY),
    ],
)
claim("At {} tuned recipes are significantly ahead of every control on clean images", lambda: ahead_of_all(0.05))
claim(
    "At {}, where all lose little, they are ahead of every control on clean images",
    lambda: [budget for budget in ahead_of_all(1.0) if budget not in ahead_of_all(0.05)],
)
claim(
    "search and calibration add {} and {} points to that on clean images, and {} and {} over the five views",
    lambda: [
        *(top1(model, "0.36") - top1(model, "0.36", "budget, 192 pixels") for model in TINY),
        *(mean(model, "tuned") - mean(model, "budget, 192 pixels") for model in TINY),
    ],
)
claim("the smaller image is ahead of both at {} and {}, and of vanilla too", ahead_on_pixelated)
claim(
    "Its recipes at {} and {}, and",
    "by hand: their files are of version 2 (docs/recipes.md), and results/tuned.csv has their rows from commit ecb3126",
)
claim("ViT-B at {} had 280 photographs, above 160, and calibration as its only lever", RUNS_BY_HAND)
claim(
    "At {} and {} DeiT-Ti has {} % and {} %, ViT-Ti {} % and {} %: nothing is lost that 500 images could show. At {} a",
    lambda: [0.65, 0.8, *(top1(model, budget) for model in TINY for budget in ("0.65", "0.8")), 0.8],
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
    "smaller image (p {} and {})",
    lambda: [0.5, *lost_at_half(), 1, *(run(model, "0.5")[key] for key in ("against_smaller", "p") for model in TINY)],
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
claim(
    "With 192 pixels it has {} % and {} % at {}",
    lambda: [*(top1(model, "0.36", "budget, 192 pixels") for model in TINY), 0.36],
)
claim(
    "over the five views at {}, DeiT-Ti has {} % and ViT-Ti {} %; vanilla {} % and {} %, the smaller image {} % and "
    "{} %",
    lambda: [0.36, *(mean(model, what) for what in ("tuned", "vanilla", "smaller image") for model in TINY)],
)
claim("constant r {} % and {} %. At", lambda: [mean(model, "constant r") for model in TINY])
claim(
    "At {} they have {} % and {} %, the smaller image {} % and {} %",
    lambda: [0.5, *(mean(model, what, "0.5") for what in ("tuned", "smaller image") for model in TINY)],
)
claim(
    "Under shift at {} and {} the tiny models stay with vanilla: over the five views DeiT-Ti has {} % and {} %, ViT-Ti "
    "{} % and {} %. The smaller image has {} % and {} %, {} % and {} %: at {} it is ahead",
    lambda: [
        *(0.65, 0.8),
        *(
            mean(model, what, budget)
            for what in ("tuned", "smaller image")
            for model in TINY
            for budget in ("0.65", "0.8")
        ),
        0.8,
    ],
)
claim(
    "Under noise it has {} %, {} % and {} % at {}, {} and {}, vanilla {} %, the smaller image {} %, {} % and {} %",
    lambda: [
        *(run("ViT-B", budget, "tuned", NOISE)["top1"] for budget in ("0.5", "0.65", "0.8")),
        *(0.5, 0.65, 0.8),
        run("ViT-B", "0.5", "vanilla", NOISE)["top1"],
        *(run("ViT-B", budget, "smaller image", NOISE)["top1"] for budget in ("0.5", "0.65", "0.8")),
    ],
)
claim(
    "under noise it is ahead of ViT-Ti at {} already",
    lambda: [
        min(
            float(budget)
            for budget in BUDGETS
            if float(run("ViT-Ti", budget, "smaller image", NOISE)["top1"])
            > float(run("ViT-Ti", budget, "tuned", NOISE)["top1"])
        )
    ],
)
claim(
    "ToMe at constant r has {} % and {} %, {} % and {} %, MCTF {} % and {} %, {} % and {} %",
    lambda: [
        mean(model, what, budget)
        for what in ("constant r", "constant r, mctf")
        for model in TINY
        for budget in ("0.65", "0.8")
    ],
)
claim(
    "Over the five views it has {} %, {} % and {} % at {}, {} and {}, vanilla {} %, the smaller image {} %, {} % and "
    "{} %, ToMe at constant r {} %, {} % and {} %, MCTF {} %, {} % and {} %",
    lambda: [
        *(mean("ViT-B", "tuned", budget) for budget in ("0.5", "0.65", "0.8")),
        *(0.5, 0.65, 0.8),
        mean("ViT-B", "vanilla", "0.5"),
        *(
            mean("ViT-B", what, budget)
            for what in ("smaller image", "constant r", "constant r, mctf")
            for budget in ("0.5", "0.65", "0.8")
        ),
    ],
)
claim(
    "Calibrating it at {} takes {} vanilla passes over {} images and {} over {} (",
    lambda: [
        read("calibration-time.csv")[0]["budget"],
        *(row[key] for row in read("calibration-time.csv") for key in ("passes", "n")),
    ],
)
claim(
    "Under noise at {} DeiT-Ti is significantly ahead of the smaller image and ViT-Ti somewhat: {} % to {} % and {} % "
    "to {} %; at {} DeiT-Ti is level with it and ViT-Ti significantly ahead: {} % to {} % and {} % to {} %. On",
    lambda: [0.36, *under_noise("0.36"), 0.5, *under_noise("0.5")],
)
claim(
    "ViT-B at {} keeps {} % of vanilla's accuracy on clean images, {} points ahead of the smaller image (p {}); the "
    "aim was {} %. Over the five views it has {} %, vanilla {} %, a budget alone {} %, the smaller image {} %, ToMe at "
    "constant r {} %",
    lambda: [
        0.36,
        *(run("ViT-B", "0.36")[key] for key in ("of_vanilla", "against_smaller", "p")),
        97,
        *(mean("ViT-B", what) for what in ("tuned", "vanilla", "budget alone", "smaller image", "constant r")),
    ],
)
claim(
    "A recipe of the version before that feeds 208 pixels, calibrated alike, has {} % of vanilla's accuracy on clean "
    "images and {} % over the five views",
    lambda: [run("ViT-B", "0.36", "tuned, 208 pixels")["of_vanilla"], mean("ViT-B", "tuned, 208 pixels")],
)
claim(
    "From {} on nothing is lost that 500 images could show: tuned {} %, {} % and {} % at {}, {} and {}; a budget alone "
    "has {} % at {}, where vanilla has {} %, {} points ahead of the smaller image (p {}). Under",
    lambda: [
        0.5,
        *(top1("ViT-B", budget) for budget in ("0.5", "0.65", "0.8")),
        *(0.5, 0.65, 0.8),
        top1("ViT-B", "0.5", "budget alone"),
        0.5,
        top1("ViT-B", "0.5", "vanilla"),
        *(run("ViT-B", "0.5", "budget alone")[key] for key in ("against_smaller", "p")),
    ],
)
claim(
    "cluster is {} points better than CATIS as it is by default on DeiT-Ti and {} points on ViT-Ti, where that is "
    "significant; MCTF is {} and {} points better, significantly on both",
    lambda: [*from_catis("cluster"), *from_catis("mctf")],
)
claim(
    "brings CATIS {} and {} points, significantly on ViT-Ti, and so within {} and {} points of cluster",
    lambda: [
        *from_catis("catis, Theta by fidelity"),
        *(
            float(cluster) - float(catis)
            for cluster, catis in zip(from_catis("cluster"), from_catis("catis, Theta by fidelity"), strict=True)
        ),
    ],
)
claim(
    "is {} and {} points worse than the hand choice, significantly on DeiT-Ti",
    lambda: [-float(points) for points in from_catis("catis, Theta by rho_s")],
)
claim(
    "over the five views it takes DeiT-Ti from {} % to {} % and ViT-Ti from {} % to {} %",
    lambda: [mean(model, what) for model in TINY for what in ("tuned, not calibrated", "tuned")],
)
claim(
    "has a rank correlation of {} to {} with pairwise rho_s, in the rule one of {} to {}",
    lambda: [pick(ranks(what)) for what in ("tuned", "adaptive") for pick in (min, max)],
)
claim(
    "At {} the rule has {} % (DeiT-Ti) and {} % (ViT-Ti), the same share in every block {} % and {} %; "
    "ToMe under the tuned schedule and input size has {} % and {} %",
    lambda: [
        0.36,
        *(top1(model, "0.36", what) for what in ("adaptive", "same share") for model in TINY),
        *(row["top1"] for row in read("triage.csv") if row["what"] == "tome"),
    ],
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
