"""The plan files that ship: each can be read, and its runs cost what the paper says."""

from pathlib import Path

import pytest

from catis.sweep.costs import costs
from catis.sweep.jobs import expand
from catis.sweep.plan import read_plan

PLANS = sorted((Path(__file__).parents[2] / "plans").glob("*.toml"))


@pytest.fixture(autouse=True)
def _places(monkeypatch):
    monkeypatch.setenv("CATIS_WEIGHTS", "/weights")
    monkeypatch.setenv("CATIS_IMAGES", "/images")


@pytest.mark.parametrize("path", PLANS, ids=lambda path: path.stem)
def test_a_plan_can_be_read_and_costed(path):
    plan = read_plan(path)
    jobs = expand(plan)
    gmacs = costs(path, jobs)
    assert all(cost > 0 for cost in gmacs)
    assert path.read_text().count("catis sweep") >= 1  # says how to run it
    assert {job.model for job in jobs} == {model.label for model in plan.models}


def test_table_1_is_the_papers():
    path = next(path for path in PLANS if path.stem == "table1")
    jobs = expand(read_plan(path), only=["*imagenet"])
    found = {(job.model, job.method): cost for job, cost in zip(jobs, costs(path, jobs), strict=True)}
    assert len(jobs) == 7 * 6
    expected = {
        "vit-s": (4.60, 2.70), "vit-b": (17.56, 10.37), "vit-l": (61.55, 22.73), "deit3-s": (4.60, 1.65),
        "deit3-b": (17.56, 6.28), "deit3-l": (61.55, 22.73), "dinov3-7b": (1363.0, 815.5),
    }  # fmt: skip
    for model, (vanilla, reduced) in expected.items():
        assert found[model, "vanilla"] == pytest.approx(vanilla, rel=2e-3)
        for method in ("tome", "tofu", "pitome", "mctf", "catis"):
            assert found[model, method] == pytest.approx(reduced, rel=2e-3)


def test_the_whole_table_has_75_corrupted_sets():
    path = next(path for path in PLANS if path.stem == "table1")
    assert len({job.data for job in expand(read_plan(path))}) == 4 + 75


@pytest.mark.parametrize(
    ("name", "rows"),
    [
        ("ablation-signal", ["signal=fused", "signal=cls", "signal=nf"]),
        ("ablation-strategy", ["strategy=triage", "strategy=evict", "strategy=merge", "strategy=global"]),
        ("ablation-norm", ["signal=l2", "signal=euclidean", "signal=nf"]),
    ],
)
@pytest.mark.parametrize("kind", ["", "real-"])
def test_ablations_have_the_papers_rows(name, rows, kind):
    path = next(path for path in PLANS if path.stem == kind + name)
    assert [method.label for method in read_plan(path).methods] == [f"catis {row}" for row in rows]
