"""Plan files: what they may say, and that whatever is wrong is named with its file and key."""

from pathlib import Path

import pytest

from catis.sweep.jobs import expand
from catis.sweep.plan import read_plan
from catis.sweep.table import PlanError

SMALL = """
r = [4, 8]
methods = ["tome", { name = "catis", grid = { tau = [0.5, 1.0] } }]
data = ["zoo-clean"]
[models.small]
name = "tiny-6"
"""


@pytest.fixture
def write(tmp_path):
    def file(text: str) -> Path:
        path = tmp_path / "plan.toml"
        path.write_text(text)
        return path

    return file


def labels(path, **choice):
    return [job.label for job in expand(read_plan(path), **choice)]


def test_a_plan_is_the_product_with_vanilla_first(write):
    assert labels(write(SMALL)) == [
        "small vanilla zoo-clean",
        "small tome r=4 zoo-clean",
        "small tome r=8 zoo-clean",
        "small catis tau=0.5 r=4 zoo-clean",
        "small catis tau=0.5 r=8 zoo-clean",
        "small catis tau=1.0 r=4 zoo-clean",
        "small catis tau=1.0 r=8 zoo-clean",
    ]


def test_naming_vanilla_changes_nothing(write):
    assert labels(write(SMALL.replace('"tome"', '"vanilla", "tome"'))) == labels(write(SMALL))


def test_amounts_of_a_method_win_over_a_models_and_those_over_the_plans(write):
    plan = """
    r = 2
    methods = ["tome", { name = "tofu", r = [{ r = 6, inflect = -1 }, 0.25] }]
    data = ["zoo-clean"]
    models.a.name = "tiny-6"
    models.b = { name = "tiny-6", r = [[1, 2, 3, 4, 5, 6]] }
    """
    amounts = [str(job.spec.reduction.schedule) for job in expand(read_plan(write(plan))) if not job.is_vanilla]
    assert amounts == ["2", "6:-1", "0.25", "1,2,3,4,5,6", "6:-1", "0.25"]


def test_a_method_that_decides_the_amounts_itself_runs_once(write):
    plan = SMALL.replace('"tome"', '{ name = "pitome", options = { reference = true, ratio = 0.9 } }')
    assert [job.spec.reduction.r for job in expand(read_plan(write(plan)), only=["*pitome*"])] == [0, None]


def test_corruptions_are_spread_out(write):
    plan = SMALL.replace('["zoo-clean"]', '[{ name = "zoo-clean", corruption = "all", severity = [1, 5] }]')
    titles = {job.data for job in expand(read_plan(write(plan)))}
    assert len(titles) == 30
    assert "zoo-clean@fog:5" in titles


def test_only_skip_and_excludes(write):
    path = write(SMALL + '[[exclude]]\nmethod = "catis*"\nr = 8\n')
    assert labels(path, only=["*catis*"]) == [
        "small vanilla zoo-clean",
        "small catis tau=0.5 r=4 zoo-clean",
        "small catis tau=1.0 r=4 zoo-clean",
    ]
    assert labels(path, skip=["*catis*", "*r=4*"]) == ["small vanilla zoo-clean", "small tome r=8 zoo-clean"]
    with pytest.raises(PlanError, match=r"nothing is left to run with --only \['none'\]"):
        labels(path, only=["none"])


def test_the_smallest_limit_holds(write):
    plan = SMALL.replace('["zoo-clean"]', '[{ name = "zoo-clean", limit = 100 }]') + "limit = 50\n"
    path = write(plan)
    assert {job.spec.data.limit for job in expand(read_plan(path))} == {50}
    assert {job.spec.data.limit for job in expand(read_plan(path), limit=24)} == {24}


def test_paths_are_relative_to_the_plan_and_take_variables(write, tmp_path, monkeypatch):
    monkeypatch.setenv("SETS", "/sets")
    monkeypatch.delenv("WEIGHTS", raising=False)
    plan = """
    store = "out/store"
    methods = []
    data = [{ name = "imagenet", root = "${SETS}/val" }]
    models.vit_tiny_patch16_224.checkpoint = "${WEIGHTS:-../weights}/tiny.safetensors"
    """
    read = read_plan(write(plan))
    assert read.store == tmp_path / "out" / "store"
    assert read.data[0].root == "/sets/val"
    assert read.models[0].spec.name == "vit_tiny_patch16_224"
    assert read.models[0].spec.checkpoint == str(tmp_path.parent / "weights" / "tiny.safetensors")


BAD = {
    "not TOML": ("r = [", "plan.toml: is not TOML"),
    "no models": ("r = 4", r"plan.toml, models: is missing; expected at least one"),
    "no data": (SMALL.replace('"zoo-clean"', ""), r"plan.toml, data: is missing"),
    "unknown key": (SMALL + "chekpoint = 1", r"models.small.chekpoint: is not a key here; expected checkpoint, name"),
    "unknown root key": ("rr = 3\n" + SMALL, r"plan.toml, rr: is not a key here; expected store, models"),
    "wrong type": (SMALL + 'limit = "many"', r"models.small.limit: 'many' is text, expected a whole number"),
    "a switch is no number": (SMALL + "limit = true", r"models.small.limit: True is true or false, expected a whole"),
    "too small": (SMALL + "limit = 0", r"models.small.limit: 0: expected a whole number, at least 1"),
    "crop": (SMALL + "crop_pct = 3", r"models.small.crop_pct: 3.0: expected a number above 0, at most 1"),
    "channels": (SMALL + "mean = [0.5]", r"models.small.mean: \[0.5\]: expected three numbers"),
    "two weights": (SMALL + 'checkpoint = "a"\npretrained = true', r"models.small.pretrained: is true beside"),
    "method": (SMALL.replace('"tome"', '"tomme"'), r"methods\[0\]: method='tomme': expected one of catis, cluster"),
    "option": (SMALL.replace("tau", "tao"), r"methods\[1\]: catis has no option 'tao'; its options are gamma"),
    "option value": (SMALL.replace("0.5, 1.0", "-1"), r"methods\[1\]: tau=-1: expected a number in"),
    "negative r": (SMALL.replace("[4, 8]", "[4, -8]"), r"plan.toml, r\[1\]: r=-8: -8 is negative"),
    "r as text": (SMALL.replace("[4, 8]", '"4"'), r"plan.toml, r\[0\]: r='4': '4' is a str"),
    "inflect": (SMALL.replace("[4, 8]", "{ r = 4, inflect = 3 }"), r"r\[0\]: r=\(4, 3.0\): inflect 3.0 is outside"),
    "zoo view": (SMALL.replace("zoo-clean", "zoo-dirty"), r"data\[0\].name: 'zoo-dirty': expected one of zoo-clean"),
    "near name": (
        SMALL.replace('"zoo-clean"', '{ name = "imagenet_a", root = "x" }'),
        r"data\[0\].name: 'imagenet_a': expected one of imagenet, imagenet-a",
    ),
    "no root": (SMALL.replace("zoo-clean", "imagenet"), r"data\[0\].root: is missing, expected the folder of imagenet"),
    "severity alone": (
        SMALL.replace('"zoo-clean"', '{ name = "zoo-clean", severity = 3 }'),
        r"data\[0\].corruption: is missing: the two are given together",
    ),
    "corruption": (
        SMALL.replace('"zoo-clean"', '{ name = "zoo-clean", corruption = "rain", severity = 3 }'),
        r"data\[0\].corruption\[0\]: 'rain': expected one of gaussian_noise",
    ),
    "severity": (
        SMALL.replace('"zoo-clean"', '{ name = "zoo-clean", corruption = "fog", severity = 6 }'),
        r"data\[0\].severity\[0\]: 6: expected one of 1, 2, 3, 4, 5",
    ),
    "imagenet-c whole": (
        SMALL.replace('"zoo-clean"', '{ name = "imagenet-c", root = "x" }'),
        r'data\[0\].corruption: is missing; expected "all"',
    ),
    "twice": (SMALL.replace('"zoo-clean"', '"zoo-clean", "zoo-clean"'), r"plan.toml, data: zoo-clean is there twice"),
    "precision": (SMALL + '[run]\nprecision = "fp8"', r"run.precision: 'fp8': expected one of float32"),
    "empty exclude": (SMALL + "[[exclude]]", r"exclude\[0\]: is empty and would leave out everything"),
    "variable": (
        SMALL.replace('"zoo-clean"', '{ name = "imagenet", root = "${CATIS_NO_SUCH}/val" }'),
        r"data\[0\].root: the environment variable CATIS_NO_SUCH is not set",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_mistakes_are_named_with_file_and_key(case, write):
    text, message = BAD[case]
    with pytest.raises(PlanError, match=message):
        read_plan(write(text))


def test_no_amount_at_all(write):
    with pytest.raises(PlanError, match=r"plan.toml, r: is missing for small with tome"):
        labels(write(SMALL.replace("r = [4, 8]", "")))


def test_no_file(tmp_path):
    with pytest.raises(PlanError, match=r"none.toml: cannot be read: No such file"):
        read_plan(tmp_path / "none.toml")
