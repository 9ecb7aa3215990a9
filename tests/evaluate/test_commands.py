"""`catis eval` and `catis results`: what they print, write and refuse."""

import csv
import json
import os

import pytest
from typer.testing import CliRunner

from catis.cli import app
from catis.runs import Store
from tests.evaluate.folders import write_images
from tests.runs.records import predictions, record


@pytest.fixture
def run(tmp_path):
    def call(*arguments):
        environment = {"COLUMNS": "80", "CATIS_CACHE": str(tmp_path / "cache")}
        return CliRunner().invoke(app, [str(one) for one in arguments], env=environment)

    return call


EVAL = ("eval", "tiny-6", "-m", "tome", "-r", 8, "--data", "zoo-clean", "-n", 24)


def test_eval_prints_writes_and_finds_again(run, tmp_path):
    store, file = tmp_path / "store", tmp_path / "results.csv"
    first = run(*EVAL, "--data", "zoo-clean@fog:2", "--store", store, "--results-file", file)
    assert first.exit_code == 0, first.output
    for word in ("vanilla", "tome 8", "zoo-clean@fog:2", "mCA, zoo-clean, tome 8:", "over 1 of 75", str(tmp_path)):
        assert word in first.output.replace("\n", ""), word
    rows = list(csv.DictReader(file.open()))
    assert [row["method"] for row in rows] == ["vanilla", "tome"] * 2
    assert list(rows[0])[:3] == ["model", "top1", "top1_err"]
    assert len(Store(store).records()) == 4
    again = run(*EVAL, "--store", store)
    assert again.output.count("in the store already") == 2
    forced = run(*EVAL, "--store", store, "--force")
    assert "in the store already" not in forced.output
    assert len(Store(store).records()) == 4


def test_eval_of_the_plain_model_without_cache_or_store(run, tmp_path):
    result = run("eval", "tiny-6", "--data", "zoo-clean", "-n", 24, "--no-cache", "--results-file", tmp_path / "r.json",
                 "--results-format", "json")  # fmt: skip
    assert result.exit_code == 0, result.output
    assert os.listdir(tmp_path) == ["r.json"]
    (row,) = json.loads((tmp_path / "r.json").read_text())
    assert (row["model"], row["method"], row["n_read"]) == ("tiny-6", "vanilla", 24)


def test_interrupting_keeps_what_is_finished_and_records_nothing_of_the_rest(run, tmp_path, monkeypatch):
    from catis.evaluate import predict

    calls = []

    def pressed(*arguments):
        calls.append(arguments)
        if len(calls) > 1:
            raise KeyboardInterrupt
        return whole(*arguments)

    whole = predict._pass
    monkeypatch.setattr(predict, "_pass", pressed)
    result = run(*EVAL, "--store", tmp_path / "store")
    assert result.exit_code == 130
    assert "interrupted" in result.output
    assert [one.method for one in Store(tmp_path / "store").records()] == ["vanilla"]
    assert not list((tmp_path / "store").glob(".*"))


def test_without_the_extra_only_the_store_is_missing(run, tmp_path, monkeypatch):
    monkeypatch.setattr("catis.errors.find_spec", lambda package: None)
    monkeypatch.setattr("catis.sweep.local.evaluate_run", lambda *_, **__: pytest.fail("computed"))
    result = run(*EVAL, "--store", tmp_path / "store")
    assert result.exit_code == 2
    assert "pip install 'catis[results]'" in result.stderr
    monkeypatch.undo()


BAD = [
    (["--data", "imagenet"], "expected NAME=DIR"),
    (["--data", "zoo-clean", "-m", "topk"], "method='topk': expected one of catis"),
    (["--data", "zoo-clean", "-m", "tome"], "say how many tokens to remove"),
    (["--data", "zoo-clean", "-r", "8"], "say for which method"),
    (["--data", "zoo-clean", "--amp", "--model-dtype", "bfloat16"], "mixed precision needs a float32 model"),
    (["--data", "x=/nowhere"], "no images in /nowhere: it is not there"),
    (["--data", "zoo-clean", "--img-size", "64"], "img_size cannot be set"),
]


@pytest.mark.parametrize(("arguments", "message"), BAD)
def test_bad_input_is_one_line_and_code_2(run, arguments, message):
    result = run("eval", "tiny-6", *arguments)
    assert result.exit_code == 2
    assert message in result.stderr
    assert result.stderr.count("\n") == 1


def test_folders_that_do_not_fit_the_model_are_refused(run, tmp_path):
    root = write_images(tmp_path / "set", ["a", "b"])
    result = run("eval", "tiny-6", "--data", f"pets={root}")
    assert result.exit_code == 2
    assert "pets has 2 class folders (a, b), the model 24 classes" in result.stderr


def test_broken_images_are_named_on_the_screen(run, tmp_path):
    root = write_images(tmp_path / "set", [f"{i:02d}" for i in range(24)], each=1)
    (root / "05" / "bad.png").write_text("not an image")
    result = run("eval", "tiny-6", "--data", f"set={root}", "--no-cache")
    assert result.exit_code == 0, result.output
    assert "not read: 05/bad.png" in result.output
    assert "24 of 25" in result.output
    stopped = run("eval", "tiny-6", "--data", f"set={root}", "--on-error", "raise", "--no-cache")
    assert stopped.exit_code == 2
    assert "05/bad.png" in stopped.stderr


# results


@pytest.fixture
def store(tmp_path):
    store = Store(tmp_path / "store")
    store.write(record("plain", method="vanilla", schedule="", amounts=[0, 0], r=0), predictions(400, 390))
    store.write(record("tome-8"), predictions(400, 340))
    store.write(record("tome-4", schedule="4", amounts=[4, 4], r=4), predictions(400, 380))
    store.write(record("catis-8", method="catis"), predictions(400, 360))
    store.write(record("catis-2", method="catis", schedule="2", amounts=[2, 2], r=2), predictions(400, 385))
    return store


def test_results_as_table_csv_and_markdown(run, store, tmp_path):
    table = run("results", store.folder)
    assert table.exit_code == 0, table.output
    assert table.output.count("tome") == 2
    assert len({len(line) for line in table.output.splitlines() if "tiny-6" in line}) == 1  # whole lines, none cut
    rows = list(csv.DictReader(run("results", store.folder, "--format", "csv", "-m", "catis").output.splitlines()))
    assert [(row["model"], row["method"], row["name"]) for row in rows] == [
        ("tiny-6", "catis", "catis-2"), ("tiny-6", "catis", "catis-8"),
    ]  # fmt: skip
    file = tmp_path / "table.md"
    done = run("results", store.folder, "--format", "markdown", "-o", file)
    assert f"wrote {file}" in done.stderr.replace("\n", "")
    lines = file.read_text().splitlines()
    assert lines[0].startswith("| model | data | method | r |")
    assert len(lines) == 2 + 5


def test_paired_differences_are_of_the_same_amounts(run, store):
    result = run("results", store.folder, "--against", "tome", "--format", "csv")
    rows = {(row["method"], row["r"]): row for row in csv.DictReader(result.stdout.splitlines())}
    assert set(rows) == {("catis", "8")}
    row = rows["catis", "8"]
    assert (float(row["points"]), row["gained"], row["lost"], row["n"]) == (5.0, "20", "0", "400")
    assert float(row["p"]) == pytest.approx(2 / 2**20, rel=0.1)
    assert float(row["low"]) < 5 < float(row["high"])
    assert "not compared: catis-2: no reference run of the same model, data and amounts" in result.stderr


def test_every_run_can_be_compared_with_vanilla_or_with_one_run(run, store):
    rows = list(
        csv.DictReader(run("results", store.folder, "--against", "vanilla", "--format", "csv").stdout.splitlines())
    )
    assert len(rows) == 4
    assert all(float(row["points"]) < 0 for row in rows)
    assert run("results", store.folder, "--against", "tome-8", "--format", "csv").stdout.count("\n") == 5


def test_results_with_damage_a_query_and_mistakes(run, store, tmp_path):
    store.path("tome-4").write_text("{")
    result = run("results", store.folder, "--sql", "SELECT count(*) AS runs FROM results", "--format", "csv")
    assert result.stdout == "runs\n4\n"
    assert "damaged, left out:" in result.stderr
    assert "tome-4.json" in result.stderr
    for arguments, message in [
        ((store.folder, "--sql", "SELEC"), "DuckDB"),
        ((store.folder, "--sql", "SELECT 1", "--against", "tome"), "one of them says what to print"),
        ((store.folder, "--against", "mctf"), "no such run here; methods here: catis, tome, vanilla"),
        ((tmp_path / "nowhere",), "is not a folder: expected a results store"),
    ]:
        failed = run("results", *arguments)
        assert failed.exit_code == 2
        assert message in failed.stderr
