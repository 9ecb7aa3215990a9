"""Sweeps in this process: what is shared is done once, what is done is skipped, what fails does not stop the rest."""

import json
import signal
import subprocess
import sys
import time
from dataclasses import replace

import pytest
import torch
from typer.testing import CliRunner

from catis.cli import app
from catis.evaluate.run import evaluate_run
from catis.runs.store import Store
from catis.sweep import groups, local
from catis.sweep.events import Events
from catis.sweep.jobs import expand
from catis.sweep.local import run_here
from catis.sweep.plan import read_plan
from catis.zoo import ZooDataset


def sweep(*arguments: object):
    return CliRunner().invoke(app, ["sweep", *map(str, arguments)], env={"COLUMNS": "200"})


@pytest.fixture
def counted(monkeypatch):
    """How often models were loaded and runs were done."""
    counts = {"load": 0, "run": 0}

    def count(name, function):
        def wrapped(*values, **named):
            counts[name] += 1
            return function(*values, **named)

        return wrapped

    monkeypatch.setattr(groups, "load", count("load", groups.load))
    monkeypatch.setattr(local, "evaluate_run", count("run", local.evaluate_run))
    return counts


def test_every_run_is_done_once_and_equals_a_run_of_its_own(plan, tmp_path, counted, cache):
    jobs, store, events = expand(read_plan(plan)), Store(tmp_path / "store"), Events()
    run_here(jobs, store, events, threads=1, cache=cache)
    assert counted == {"load": 1, "run": 10}
    assert len(store.names()) == len(events.records) == 10
    assert events.failures == events.skipped == []
    job, record = events.records[-1]
    vanilla = next(done for other, done in events.records if other.is_vanilla and other.data == job.data)
    alone, _ = evaluate_run(job.spec, vanilla=store.predictions(vanilla.name), cache=cache)
    assert store.read(alone.name).content() == replace(alone, predictions=record.predictions).content()
    assert record.agreement_n == 24


def test_what_is_done_is_skipped_and_what_is_missing_is_done(plan, tmp_path, counted, cache):
    jobs, store = expand(read_plan(plan)), Store(tmp_path / "store")
    run_here(jobs[:2], store, Events(), cache=cache)
    again = Events()
    run_here(jobs, store, again, cache=cache)
    assert (len(again.skipped), len(again.records)) == (2, 8)
    assert counted["run"] == 10
    assert [record.agreement_n for _, record in again.records][:3] == [24, 24, 24]  # vanilla came from the store


def test_a_vanilla_run_without_its_predictions_is_done_again(plan, tmp_path, cache):
    jobs, store = expand(read_plan(plan), only=["*zoo-clean"]), Store(tmp_path / "store")
    run_here(jobs[:1], store, Events(), cache=cache)
    for file in store.folder.glob("*.parquet"):
        file.write_bytes(b"damaged")
    events = Events()
    run_here(jobs, store, events, cache=cache)
    assert [job.is_vanilla for job, _ in events.records] == [True, False, False, False, False]


def test_two_entries_that_come_to_the_same_run_are_one(plan, tmp_path, cache):
    plan.write_text(plan.read_text().replace('"catis"', '"catis", { name = "catis", options = { tau = 1.0 } }'))
    events = Events()
    run_here(expand(read_plan(plan), only=["*catis*r=4*"]), Store(tmp_path / "store"), events, cache=cache)
    assert (len(events.records), len(events.skipped)) == (4, 2)


def test_without_a_cache_images_are_decoded_once_into_memory(plan, tmp_path, monkeypatch):
    reads = []
    original = ZooDataset.__getitem__
    monkeypatch.setattr(ZooDataset, "__getitem__", lambda self, index: reads.append(index) or original(self, index))
    run_here(expand(read_plan(plan), only=["*tome*zoo-clean"]), Store(tmp_path / "store"), Events())
    assert sorted(reads) == list(range(24))


def test_threads_are_put_back(plan, tmp_path):
    before = torch.get_num_threads()
    run_here(expand(read_plan(plan))[:1], Store(tmp_path / "store"), Events(), threads=before + 1)
    assert torch.get_num_threads() == before


def test_the_number_of_threads_does_not_change_a_record(plan, tmp_path, cache):
    job = expand(read_plan(plan), only=["*catis r=8 zoo-clean"])
    contents = []
    for threads in (1, 2):
        events = Events()
        run_here(job, Store(tmp_path / str(threads)), events, threads=threads, cache=cache)
        assert [record.environment["threads"] for _, record in events.records] == [threads] * 2
        contents.append([record.content() for _, record in events.records])
    assert contents[0] == contents[1]


# the command


def test_the_command_runs_skips_and_says_so(plan, tmp_path):
    first = sweep(plan, "--store", tmp_path / "store", "--only", "*tome*zoo-clean")
    assert first.exit_code == 0, first.output
    assert "3/3 small tome r=8 zoo-clean: top-1" in first.output
    assert "3 runs done, 0 done before, 0 failed, of 3" in first.output
    second = sweep(plan, "--store", tmp_path / "store", "--only", "*zoo-clean")
    assert "2 runs done, 3 done before, 0 failed, of 5" in second.output


def test_a_failing_run_is_reported_at_the_end_and_the_others_go_on(plan, tmp_path):
    hurt = plan.read_text().replace('"catis"]', '"catis", { name = "mctf", prop_attn = false }]')
    broken = tmp_path / "images" / "anchor"
    broken.mkdir(parents=True)
    (broken / "a.png").write_bytes(b"no image")
    plan.write_text(hurt + f'[[data]]\nname = "own"\nroot = "{broken.parent}"\n')
    result = sweep(plan, "--store", tmp_path / "store", "--only", "*tome r=4*", "--skip", "*contrast*")
    assert result.exit_code == 1
    assert "2 runs done, 0 done before, 2 failed, of 4" in result.output
    assert "failed: small vanilla own:" in result.output
    assert len(Store(tmp_path / "store").names()) == 2


def test_the_dry_run_prints_runs_costs_and_what_is_done_and_writes_nothing(plan, tmp_path):
    result = sweep(plan, "--store", tmp_path / "store", "--dry-run")
    assert result.exit_code == 0, result.output
    assert not (tmp_path / "store").exists()
    assert "10 runs into" in result.output
    assert "images/s, vanilla" in result.output
    sweep(plan, "--store", tmp_path / "store", "--only", "*vanilla zoo-clean")
    lines = sweep(plan, "--store", tmp_path / "store", "--dry-run").output.splitlines()
    states = [line.split()[-1] for line in lines if line.strip().startswith("small ")]
    assert states == ["done"] + ["do"] * 9


def test_missing_files_are_all_named_before_anything_runs(plan, tmp_path):
    plan.write_text(plan.read_text() + '[[data]]\nname = "imagenet"\nroot = "none"\n')
    plan.write_text(plan.read_text().replace('"tiny-6"', '"tiny-6"\ncheckpoint = "none.safetensors"'))
    result = sweep(plan, "--store", tmp_path / "store")
    assert result.exit_code == 2
    assert "checkpoint" in result.output
    assert f"folder {tmp_path / 'none'} is not there" in result.output
    assert not (tmp_path / "store").exists()
    preview = sweep(plan, "--store", tmp_path / "store", "--dry-run")
    assert preview.exit_code == 0
    assert preview.output.count("missing:") == 2


def test_an_amount_that_does_not_fit_the_model_is_refused_before_anything_runs(plan, tmp_path):
    plan.write_text(plan.read_text().replace("r = [4, 8]", "r = [[4, 4]]"))
    result = sweep(plan, "--store", tmp_path / "store")
    assert result.exit_code == 2
    assert "small tome r=4,4 zoo-clean: r=[4, 4]: 2 entries for 6 blocks" in result.output
    unknown = sweep(plan.with_name("plan.toml"), "--limit", "0")
    assert unknown.exit_code == 2


def test_no_such_model(plan):
    plan.write_text(plan.read_text().replace("tiny-6", "tiny-7"))
    result = sweep(plan)
    assert result.exit_code == 2
    assert "models.small: model 'tiny-7' is neither in timm nor in the zoo" in result.output


def test_ctrl_c_keeps_what_is_done(plan, tmp_path):
    plan.write_text(plan.read_text().replace("limit = 24", "limit = 120"))
    store = tmp_path / "store"
    # A shell's background jobs ignore SIGINT, and so would their children.
    code = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); import catis.cli; catis.cli.main()"
    command = [sys.executable, "-c", code, "sweep", str(plan), "--store", str(store)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    while not list(store.glob("*.json")) and process.poll() is None:
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    output, _ = process.communicate(timeout=60)
    assert process.returncode == 130, output
    assert "the same command goes on from here" in output
    found = Store(store)
    assert 1 <= len(found.records()) < 10
    assert found.damaged() == []
    assert json.loads(next(store.glob("*.json")).read_text())["n_read"] == 120
