"""Every number that a page claims in a sentence or a table has a source: a file, a test, a script, or the paper."""

import re
from inspect import signature

import pytest

import catis
from catis.cli.eval import eval_command
from catis.cli.export import export_command
from catis.core.reduction import Reduction
from catis.evaluate import compare, evaluate_run
from catis.runs import DataSpec, ModelSpec, RunSpec
from tests.claims import of_diagnostics, of_pages, of_results, of_tuning
from tests.claims.walk import Claim, measurements, prose
from tests.hosts.test_hf_figures import DINOV3_7B, hf, torch
from tests.test_doc_numbers import ROOT, page, tables
from tests.test_doc_tables import assert_rounded

PAGES = ["README.md", *(f"docs/{path.name}" for path in sorted((ROOT / "docs").glob("*.md")))]
CLAIMS = [*of_diagnostics.CLAIMS, *of_results.CLAIMS, *of_pages.CLAIMS, *of_tuning.CLAIMS]
WORDS = ("the paper", "the usual level", "by hand", "counted")
NUMBERS, TABLES = "tests/test_doc_numbers.py::", "tests/test_doc_tables.py::"
TABLE_SOURCES = {
    "top-1 at a budget": f"{NUMBERS}test_the_tables_of_the_readme",
    "top-1 at 0.36": f"{NUMBERS}test_the_tables_of_the_readme",
    "model, chosen by": f"{TABLES}test_theta_by_both_objectives",
    "KL, same share = 1": f"{TABLES}test_shapes_of_a_budget",
    "KL, all blocks = 1": f"{TABLES}test_few_blocks_of_a_budget",
    "KL, cluster = 1": f"{TABLES}test_methods_of_a_budget",
    "KL, norms as they come = 1": f"{TABLES}test_switches_of_a_reduction",
    "KL, the whole size term = 1": f"{TABLES}test_switches_of_a_reduction",
    "KL, attention as it is = 1": f"{TABLES}test_switches_of_a_reduction",
    "rho_s": f"{NUMBERS}test_the_table_of_rho_s",
    "DeiT-Ti, r=23": f"{TABLES}test_rho_off_of_the_reduced_model",
    "| beta": f"{TABLES}test_growth_of_the_distortion",
    "r | 2": f"{TABLES}test_beta_does_not_move_with_r",
    "| ToMe | PiToMe": f"{TABLES}test_critical_r_of_deit",
    "| r_crit at L": f"{TABLES}test_critical_r_over_the_depths_of_the_zoo",
    "features": f"{TABLES}test_perturbation_energy",
    "pass": f"{TABLES}test_passes_of_an_evaluation",
    "ViT-S, r=13, ONNX": f"{TABLES}test_speed_of_exported_files",
    "agreement with vanilla, %": f"{TABLES}test_agreement_of_int8_files",
    "int8 x fewer tokens": f"{TABLES}test_int8_times_fewer_tokens",
    "points ahead of": f"{TABLES}test_paired_with_every_control",
    "top-1, % (points from catis": f"{TABLES}test_forms_of_a_tuned_recipe",
    "top-1, % (points from smaller image": f"{TABLES}test_forms_of_a_tuned_recipe",
    "vit_tiny_patch16_224, n=300": "python benchmarks/quantize.py",
    "method | zoo tiny-12": f"{NUMBERS}test_the_table_of_dense_features",
    "model | batch": f"{NUMBERS}test_the_speeds_add_up_and_the_readme_quotes_them",
    "r | GMACs": f"{NUMBERS}test_the_tables_of_the_results",
    "model | data": f"{NUMBERS}test_catis_against_mctf",
    "r | data": f"{NUMBERS}test_the_ablations",
    "the paper | here": "tests/test_doc_claims.py::test_the_claims_of_the_paper_beside_ours",
    "top-1, % (points from the smaller": f"{NUMBERS}test_the_tuned_recipes",
    "view | what": "tests/test_doc_claims.py::test_the_weak_classifier",
    "model | clean": f"{TABLES}test_cards_of_the_zoo",
}  # fmt: skip
NO_MEASUREMENTS = (
    "name |", "spelling", "it says", "option", "library", "model | tower", "promise", "key", "| what it is", "views",
)  # fmt: skip
"""Tables of words, settings and spellings."""


@pytest.mark.parametrize("name", PAGES)
def test_every_number_in_a_sentence_has_a_source(name):
    text = prose(page(name))
    places = [match.span() for claim in CLAIMS if claim.page == name for match in claim.found(text)]
    bare = [
        text[max(0, one.start() - 60) : one.end() + 30]
        for one in measurements(text)
        if not any(start <= one.start() and one.end() <= end for start, end in places)
    ]
    assert bare == [], "say in tests/claims where these come from, or take them out"


@pytest.mark.parametrize("claim", CLAIMS, ids=lambda claim: f"{claim.page} {claim.words[:50]}")
def test_what_is_said_is_what_the_source_says(claim):
    found = claim.found(prose(page(claim.page)))
    assert found, f"the page does not say this any more: {claim.words}"
    if isinstance(claim.source, str):
        assert_source(claim.source)
        return
    values = list(claim.source())
    for match in found:
        assert len(values) == len(match.groups())
        for said, value in zip(match.groups(), values, strict=True):
            assert_rounded(said, value)


def assert_source(source: str) -> None:
    """A test, script or file that exists, or one of the few words for what was not measured here."""
    source = source.removeprefix("pending: ")
    if source.startswith(WORDS) or source.startswith("catis "):
        return
    path, _, test = source.removeprefix("python ").partition(" ")[0].partition("::")
    assert (ROOT / path).is_file(), source
    assert not test or f"def {test}(" in page(path), source


@pytest.mark.parametrize("name", PAGES)
def test_every_table_with_measurements_has_a_source(name):
    text = re.sub(r"^```.*?^```$", "", page(name), flags=re.DOTALL | re.MULTILINE)
    for table in tables(text):
        head = " | ".join(table[0]).strip()
        if any(re.search(r"\d\.\d|\d ?%", cell) for row in table for cell in row) and not head.startswith(
            NO_MEASUREMENTS
        ):
            sources = {source for begin, source in TABLE_SOURCES.items() if head.startswith(begin)}
            assert len(sources) == 1, f"say in TABLE_SOURCES where the table {head!r} comes from"
            assert_source(*sources)


def test_a_number_without_a_source_would_be_seen():
    text = prose(
        "It is 3.5 % better, `r=0.1`, in 4 to 8 ms.\n\n| 1.5 | a |\n\n```\n7.5 s\ncatis demo  # 13 seconds\n```\n"
    )
    assert [one[0] for one in measurements(text)] == ["3.5", "4", "8", "13"]
    wrong = Claim("README.md", "With {} % of the multiply-adds", lambda: [99.0])
    with pytest.raises(AssertionError, match="99"):
        test_what_is_said_is_what_the_source_says(wrong)


def test_the_cache_has_the_limit_of_the_pages():
    assert signature(eval_command).parameters["cache_limit"].default == 20.0


def test_the_tolerance_of_an_export():
    assert signature(export_command).parameters["tolerance"].default == 1e-4


def test_dinov3_of_the_page():
    with torch.device("meta"):
        model = hf.DINOv3ViTModel(hf.DINOv3ViTConfig(**DINOV3_7B)).eval()
    assert f"DINOv3-7B: {catis.gmacs(model):.1f} GMACs, {catis.gmacs(model, r=4):.1f} at r=4" in page(
        "docs/huggingface.md"
    )


def test_the_claims_of_the_paper_beside_ours():
    (table,) = [table for table in tables(page("docs/results.md")) if table[0] == ["the paper", "here"]]
    (ours,) = [row[1] for row in table if "DeiT-3-B at r = 23" in row[0]]
    said = re.findall(r"([+-][\d.]+) \((DeiT-Ti|ViT-Ti|ViT-B)", ours)
    assert len(said) == 3
    for points, model in said:
        assert_rounded(points, of_results.ahead(model, "catis", 23))
    worst = [
        min(("tome", "tofu", "pitome", "mctf", "catis"), key=lambda m: of_results.top1(model, m, 23, noisy))
        for model in ("DeiT-Ti", "ViT-Ti", "ViT-B") for noisy in (False, True)
    ]  # fmt: skip
    assert worst.count("tofu") == 5


def test_the_weak_classifier():
    (share,) = re.findall(r"([\d.]+) % right on 960 clean validation images", page("docs/zoo.md"))
    assert_rounded(share, of_pages.zoo("weak classifier, % right")[0])


@pytest.mark.slow
def test_the_comparison_of_the_page():
    """The last lines of docs/evaluation.md, done again."""
    spec = RunSpec(ModelSpec("tiny-6"), DataSpec("zoo-clean", limit=240), Reduction.of("tome", 8))
    _, vanilla = evaluate_run(spec.vanilla)
    _, predictions = evaluate_run(spec, vanilla=vanilla)
    found = compare(predictions, vanilla)
    line = f"Difference(n={found.n}, gained={found.gained}, lost={found.lost}, points={found.points:.2f}, "
    line += f"low={found.low:.2f}, high={found.high:.2f}, p_value={found.p_value:.2f})"
    assert line in page("docs/evaluation.md")
