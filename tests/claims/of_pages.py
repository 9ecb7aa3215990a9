"""What the other pages say in sentences: from files in results/, constants of the package, tables of another page."""

from __future__ import annotations

import catis
from catis.app.photos import MOST_BYTES, MOST_PIXELS
from catis.bench.explain import SUSPICIOUS
from catis.bench.settings import PRESETS
from catis.models import load_model
from catis.registry import create_method
from tests.claims.walk import Claim
from tests.test_doc_numbers import page, read, tables

SPEEDS = "tests/test_doc_numbers.py::test_the_speeds_add_up_and_the_readme_quotes_them"
TUNED = "tests/test_doc_numbers.py::test_the_tuned_recipes"
TEST_LIST = 3783
"""Clips of UCF-101's first official test list."""


def speeds(model: str, batch: int, r: int) -> dict[str, float]:
    """Speed-up of every method in the tables of docs/performance.md."""
    rows = [row for table in tables(page("docs/performance.md")) for row in table if len(row) == 8]
    wanted = [row for row in rows if row[:2] + row[3:4] == [f"vit_{model}_patch16_224", str(batch), str(r)]]
    return {row[2]: float(row[6].split(" ")[0]) for row in wanted}


def macs_saved() -> list[float]:
    model = load_model("vit_tiny_patch16_224")
    return [catis.gmacs(model) / catis.gmacs(model, "tome", r=13)]


def gain_at_batch_1() -> list[float]:
    gains = [100 * (speed - 1) for method, speed in speeds("tiny", 1, 8).items() if method != "mctf"]
    return [min(gains), max(gains)]


def fastest_in_int8() -> list[str]:
    """Speed-ups of a ViT-B at half of the multiply-adds in int8, over itself in float32, at batch 8."""
    runs = {
        (run["runtime"], run["model"], run["batch"], run["format"], run["budget"]): run for run in read("deploy.csv")
    }
    place = ("vit_base_patch16_224", "8", "int8", "0.5")
    return [runs[runtime, *place]["total_speedup"] for runtime in ("onnxruntime", "openvino")]


def ends_in_int8(batch: str, column: str) -> list[float]:
    """The lowest and the highest figure of reduced models in int8 at a batch size."""
    runs = [run for run in read("deploy.csv") if (run["format"], run["batch"]) == ("int8", batch)]
    figures = [float(run[column]) for run in runs if run["budget"] != "vanilla"]
    return [min(figures), max(figures)]


def catis_beside_tome() -> list[float]:
    (table,) = [table for table in tables(page("docs/performance.md")) if table[0][3] == "times"]
    shares = [float(row[4].split(" ")[0]) for row in table[1:] if row[3] == "catis / tome"]
    return [100 * (1 - min(shares)), 100 * (max(shares) - 1)]


def cost_of_mctf() -> list[float]:
    cases = [(model, batch, r) for model in ("base", "small", "tiny") for batch, r in ((8, 13), (1, 8), (1, 13))]
    lost = [100 * (1 - speeds(*case)["mctf"] / speeds(*case)["tome"]) for case in cases]
    return [min(lost), max(lost)]


def bench_rows(columns: int) -> list[list[str]]:
    """Rows of the output in docs/bench.md that have so many columns."""
    lines = [line.split() for line in page("docs/bench.md").splitlines()]
    return [
        line
        for line in lines
        if len(line) == columns and line[0] in "18" and line[1] in ("vanilla", "tome", "mctf", "catis")
    ]


def choosing_of_mctf() -> list[float]:
    took = {(row[0], row[1]): float(row[5]) for row in bench_rows(10)}
    return [took[batch, "mctf"] / took[batch, "tome"] for batch in "18"]


def megabytes() -> list[str]:
    peaks = {row[1]: row[-1] for row in bench_rows(14) if row[0] == "8"}
    assert len({peaks[method] for method in ("tome", "mctf", "catis")}) == 1
    return [peaks["tome"], peaks["vanilla"]]


def last_block_alone() -> list[float]:
    model = load_model("vit_tiny_patch16_224")
    found = catis.info(catis.apply(model, r=0, head_only=True))
    return [found.gmacs / found.gmacs_vanilla]


def small_vit() -> list[float]:
    found = catis.info(catis.apply(load_model("vit_small_patch16_224"), "catis", r=13))
    return [found.gmacs, found.gmacs_vanilla]


def measured(name: str, key: str, value: str) -> dict[str, float]:
    return {row[key]: float(row[value]) for row in read(name)}


def bytes_of_views() -> list[float]:
    view = 16 * 224 * 224 * 3
    return [view / 1e6, TEST_LIST * view / 1e9, TEST_LIST * 15 * view / 1e9]


def after_300_steps() -> list[float]:
    (row,) = [line.split(",") for line in page("training/log-tiny-6.csv").splitlines() if line.startswith("300,")]
    return [100 * float(row[-1])]


def zoo(*names: str) -> list[float]:
    return [measured("zoo.csv", "what", "value")[name] for name in names]


def error_of_a_share() -> list[float]:
    return [(0.95 * 0.05 / 300) ** 0.5]


CLAIMS = [
    Claim("README.md", "With {} % of the multiply-adds", TUNED),
    Claim(
        "README.md",
        "is right on {} % instead of {} %; feeding it a smaller image keeps {} %, ToMe at constant r {} %",
        TUNED,
    ),
    Claim("README.md", "four corruptions of them it is right on {} %", TUNED),
    Claim("README.md", "vanilla on {} %, a smaller image on {} %", TUNED),
    Claim(
        "docs/methods.md",
        "`...` has {} in the first block, {} in the last",
        lambda: [create_method("cluster").size_gain(place) for place in (0.0, 1.0)],
    ),
    Claim("docs/methods.md", "multiplies its logits by {} - {} times", lambda: [1, create_method("cluster").soften]),
    Claim("README.md", "where {} times fewer multiply-adds are left", macs_saved),
    Claim("README.md", "ToMe {} times, ToFu {}, PiToMe {}, CATIS {}, MCTF {} times as fast", SPEEDS),
    Claim("README.md", "a ViT-Ti gains {} to {} % at r=8", gain_at_batch_1),
    Claim("docs/api.md", "40 of 196 patch tokens left, {} of {} GMACs", small_vit),
    Claim("docs/app.md", "limited to {} MB and {} million pixels", lambda: (MOST_BYTES / 2**20, MOST_PIXELS / 1e6)),
    Claim(
        "docs/app.md",
        "an answer took {} s for a ViT-Ti and {} s for a ViT-B",
        lambda: measured("app.csv", "model", "median_s").values(),
    ),
    Claim("docs/bench.md", "Above {} it is flagged", lambda: [SUSPICIOUS]),
    Claim("docs/bench.md", "({} rounds, {} s a row", lambda: (PRESETS["quick"].rounds, PRESETS["quick"].max_seconds)),
    Claim("docs/budget.md", "the same to rounding: {} in float64", "tests/hosts/test_head_only.py"),
    Claim("docs/budget.md", "what this alone saves ({} on a ViT-Ti)", last_block_alone),
    Claim("docs/demo.md", "difference, {} % bootstrap interval", "the usual level"),
    Claim(
        "docs/demo.md",
        "smallest r that loses more than {} points",
        "tests/demo/test_findings.py::test_exactly_five_points_are_not_more_than_five",
    ),
    Claim("docs/demo.md", "or budget={}, no search", "by hand"),
    Claim("docs/evaluation.md", "Intervals are Wilson's, {} %", "the usual level"),
    Claim("docs/evaluation.md", "its {} % bootstrap interval", "the usual level"),
    Claim(
        "docs/evaluation.md", "bounds it ({} GB)", "tests/test_doc_claims.py::test_the_cache_has_the_limit_of_the_pages"
    ),
    Claim(
        "docs/evaluation.md",
        "points={}, low={}, high={}, p_value={})",
        "tests/test_doc_claims.py::test_the_comparison_of_the_page",
    ),
    Claim("docs/export.md", "by more than `...` ({})", "tests/test_doc_claims.py::test_the_tolerance_of_an_export"),
    Claim("docs/export.md", "ONNX Runtime {} and OpenVINO {}: run", "by hand"),
    Claim("docs/export.md", "with TensorRT {}'s own list", "by hand"),
    Claim("docs/export.md", "the standard error of each figure is about {}", error_of_a_share),
    Claim("docs/huggingface.md", "in float64 is within {} of a slow", "tests/hosts/test_hf_reduced.py"),
    Claim("docs/huggingface.md", "DINOv3-7B: {} GMACs, {} at r=4", "tests/test_doc_claims.py::test_dinov3_of_the_page"),
    Claim("docs/huggingface.md", "without the attention products ({} GMACs)", lambda: [40 * 2 * 201**2 * 4096 / 1e9]),
    Claim("docs/multimodal.md", "in float64 within {} of a slow", "tests/hosts/test_towers.py"),
    Claim("docs/performance.md", "MAC ratio: {} means", "by hand"),
    Claim("docs/performance.md", "read differences below {} as noise", "by hand"),
    Claim(
        "docs/performance.md", "{}, {} and {} for ToMe, and {}, {} and {} for CATIS", "python benchmarks/efficiency.py"
    ),
    Claim("docs/performance.md", "a ViT-Ti by {} to {} %", gain_at_batch_1),
    Claim("docs/performance.md", "ViT-Ti at r=8 ({})", lambda: [speeds("tiny", 1, 8)["mctf"]]),
    Claim("docs/performance.md", "between {} % less and {} % more time than ToMe", catis_beside_tome),
    Claim(
        "docs/performance.md",
        "products alone would give {} at r=8",
        "catis bench vit_tiny_patch16_224 -m tome -r 8 --batch-size 1",
    ),
    Claim("docs/performance.md", "choosing takes {} to {} times as long", choosing_of_mctf),
    Claim("docs/performance.md", "That costs {} to {} % of the speed", cost_of_mctf),
    Claim(
        "docs/performance.md", "ran at {} (ToMe) and {} (CATIS) of vanilla's speed", "python benchmarks/efficiency.py"
    ),
    Claim("docs/performance.md", "CATIS had an efficiency of {}", "python benchmarks/efficiency.py"),
    Claim("docs/performance.md", "peaks at {} MB against vanilla's {}", megabytes),
    Claim("docs/recipes.md", "tiny-6 times {}, nothing was fitted", "by hand"),
    Claim("docs/seeing.md", "with {} % intervals", "the usual level"),
    Claim(
        "docs/video.md",
        "reading took {} s of one core per clip for one view, {} s for",
        lambda: measured("video-reading.csv", "views", "seconds_per_clip").values(),
    ),
    Claim(
        "docs/video.md", "{} MB per view, {} GB for the 3783 clips of the first test list, {} GB with", bytes_of_views
    ),
    Claim("docs/video.md", "by default ({} GB)", "tests/test_doc_claims.py::test_the_cache_has_the_limit_of_the_pages"),
    Claim(
        "docs/zoo.md",
        "One core drew {} images per second (hard: {})",
        lambda: zoo("clean images per second", "hard images per second"),
    ),
    Claim("docs/zoo.md", "label smoothing {}; weight decay {}", "training/train_zoo.py"),
    Claim("docs/zoo.md", "In the first {} % of the run", "training/README.md"),
    Claim("docs/zoo.md", "After 300 steps {} % of 960", after_300_steps),
    Claim(
        "docs/zoo.md",
        "still right on {} % of 480 test images ({} % with them)",
        lambda: zoo("tiny-12 without inserted blocks, % right", "tiny-12, % right"),
    ),
    Claim(
        "docs/zoo.md",
        "without its twelve on {} % of 240 ({} % with them)",
        lambda: zoo("tiny-24 without inserted blocks, % right", "tiny-24, % right"),
    ),
    Claim(
        "docs/deploy.md",
        "int8 runs {} (ONNX Runtime) and {} (OpenVINO) times as fast as in float32",
        lambda: fastest_in_int8(),
    ),
    Claim("README.md", "In int8 it then runs up to {} times as fast", lambda: [max(map(float, fastest_in_int8()))]),
    Claim(
        "docs/deploy.md", "at {} in ONNX Runtime was {}, {} and {} in three runs", "by hand: two of them were not kept"
    ),
    Claim("docs/deploy.md", "every row reaches {} to {} of the product", lambda: ends_in_int8("8", "share_of_product")),
    Claim("docs/deploy.md", "faster than vanilla in int8, {} to {} times", lambda: ends_in_int8("1", "speedup")),
]
