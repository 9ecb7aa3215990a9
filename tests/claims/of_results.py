"""What docs/results.md and docs/models.md say in sentences, from the files of their tables."""

from __future__ import annotations

from collections.abc import Callable

from catis.methods.catis import Catis
from tests.claims.walk import Claim, Values
from tests.test_doc_numbers import METHODS, NOISE, read, real

PAGE = "docs/results.md"
TINY = ("DeiT-Ti", "ViT-Ti")
AMOUNTS = (4, 8, 13, 18, 23)
CLAIMS: list[Claim] = []


def claim(words: str, source: Values | str) -> None:
    CLAIMS.append(Claim(PAGE, words, source))


def top1(model: str, method: str, r: int, noisy: bool = False) -> float:
    return float(real(model, noisy, method, r)["top1"])


def ahead(model: str, method: str, r: int, noisy: bool = False) -> float:
    """Points from ToMe."""
    return float(real(model, noisy, method, r)["points"])


def lost(r: int) -> tuple[float, float]:
    """Points from vanilla, the least and the most of any method, on clean images of the tiny models."""
    falls = [top1(model, "vanilla", 0) - top1(model, method, r) for model in TINY for method in METHODS]
    return min(falls), max(falls)


def ablated(kind: str, name: str, r: int, noisy: bool, column: str = "top1") -> float:
    (run,) = [
        run
        for run in read(f"ablation-{kind}.csv")
        if run["options"].endswith(f"={name}") and run["r"] == str(r) and (run["data"] == NOISE) == noisy
    ]
    return float(run[column])


def stars() -> tuple[int, int]:
    """Differences from ToMe, and how many of them are significant."""
    runs = [run for run in read("real-models.csv") if run["against"] == "tome"]
    return len(runs), sum(float(run["p"]) < 0.05 for run in runs)


def best_cells() -> dict[str, int]:
    """How often each method has the best accuracy from r = 13 on, on the tiny models."""
    cells = [(model, r, noisy) for model in TINY for r in AMOUNTS[2:] for noisy in (False, True)]
    winners = [max(METHODS, key=lambda method: top1(model, method, r, noisy)) for model, r, noisy in cells]
    return {method: winners.count(method) for method in METHODS}


def against_mctf() -> tuple[int, int, int, int]:
    """Paired differences of CATIS from MCTF on the tiny models: all, significant, for MCTF, for CATIS."""
    runs = [run for run in read("real-catis-against-mctf.csv") if "tiny" in run["model"]]
    sure = [float(run["points"]) for run in runs if float(run["p"]) < 0.05]
    return len(runs), len(sure), sum(points < 0 for points in sure), sum(points > 0 for points in sure)


def dense(column: str, model: str) -> Callable[[str, str, str], float]:
    runs = {
        (run["method"], run["r"], run["fill"]): float(run[column]) for run in read("dense.csv") if run["model"] == model
    }
    return lambda *key: runs[key]


def gained_by_own() -> list[float]:
    runs = {(run["model"], run["method"], run["r"], run["fill"]): run["mIoU"] for run in read("dense.csv")}
    own = [key for key, value in runs.items() if key[3] == "delta" and value]
    return [max(float(runs[key]) - float(runs[(*key[:3], "group")]) for key in own)]


def lost_by_evicting() -> list[float]:
    miou = dense("mIoU", "tiny-12")
    return [miou("vanilla", "0", "") - miou(method, "8", "delta") for method in ("catis", "tofu")]


def head(model: str, noisy: bool) -> list[float]:
    run = real(model, noisy, "vanilla", 0)
    return [float(run["top1"]), 95, float(run["low"]), float(run["high"]), float(run["gmacs"])]


for one in ("DeiT-Ti", "ViT-Ti", "ViT-B"):
    for view in ("clean", "noise"):
        claim(
            f"{one}, {view}, n = {100 if one == 'ViT-B' else 1000}; vanilla {{}} ({{}} % interval {{}} to {{}}), "
            "{} GMACs",
            lambda model=one, noisy=view == "noise": head(model, noisy),
        )
claim(
    "(gamma {}, w_cls {}, tau {}, evict_ratio {}, l_start 2)",
    lambda: (Catis.gamma, Catis.w_cls, Catis.tau, Catis.evict_ratio),
)
claim("a star marks p < {} in an exact McNemar", "the usual level")
claim("Of the {} differences from ToMe {} have one", stars)
claim("vanilla (all p >= {}; `...` lists them)", "catis results STORE --against vanilla")
claim(
    "at {} % fewer multiply-adds",
    lambda: [100 * (1 - float(real("DeiT-Ti", False, "tome", 8)["gmacs"]) / head("DeiT-Ti", False)[-1])],
)
claim(
    "on DeiT-Ti by {} points clean (not significant) and by {} and {} on noise; on ViT-Ti by {} and {} clean, and on "
    "noise by {} at r = 23",
    lambda: (
        ahead("DeiT-Ti", "catis", 18),
        ahead("DeiT-Ti", "catis", 18, True),
        ahead("DeiT-Ti", "catis", 23, True),
        ahead("ViT-Ti", "catis", 18),
        ahead("ViT-Ti", "catis", 23),
        ahead("ViT-Ti", "catis", 23, True),
    ),
)
claim("on DeiT-Ti by {} points clean", lambda: [ahead("DeiT-Ti", "catis", 23)])
claim(
    "the best accuracy in {} of the {} cells of the tiny models, CATIS in {}, PiToMe in {}.",
    lambda: [(won := best_cells())["mctf"], sum(won.values()), won["catis"], won["pitome"]],
)
claim("Of {} paired differences between the two there, {} are significant: {} for MCTF, {} for CATIS", against_mctf)
claim(
    "at r = 18 they have lost {} to {} points on clean images of the tiny models, at r = 23 {} to {}",
    lambda: (*lost(18), *lost(23)),
)
claim(
    "MCTF is ahead of ToMe by {} points clean and {} on noise, CATIS by {} (not significant) and {}, PiToMe by {} (not "
    "significant) and {}",
    lambda: [ahead("ViT-B", method, 23, noisy) for method in ("mctf", "catis", "pitome") for noisy in (False, True)],
)
claim("at r = 23 on clean images (p = {})", lambda: [ablated("signal", "cls", 23, False, "p")])
claim("on shifted data by {} to {} points", "the paper")
claim("below evicting ({} against {} Shift avg)", "the paper")
claim(
    "the other way round, by {} points at r = 23",
    lambda: [ablated("strategy", "merge", 23, False) - ablated("strategy", "evict", 23, False)],
)
claim("the paper has it {} points behind", "the paper")
claim(
    "raw L2 loses {} to {} points to norm_F there",
    lambda: [f(-ablated("norm", "l2", r, True, "points") for r in (13, 18, 23)) for f in (min, max)],
)
claim("The paper reports {} points between", "the paper")
CLAIMS.append(Claim("docs/models.md", "gains up to {} points of IoU", gained_by_own))
CLAIMS.append(
    Claim("docs/models.md", "What evicts loses most: {} points under `...`, {} under `...`", lost_by_evicting)
)
