"""The store: what is written comes back, and nothing that happens to a process or a file loses another run."""

import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from dataclasses import replace

import numpy as np
import pytest

from catis.errors import MissingExtraError
from catis.files import remove_leftovers, replacing
from catis.runs import Store
from catis.runs.record import DamagedRecordError
from tests.runs.records import predictions, record


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path / "deep" / "store")


def test_what_is_written_comes_back(store):
    written = store.write(record(), predictions())
    assert store.names() == [written.name]
    assert store.has(written.name)
    assert store.read(written.name) == written
    found, given = store.predictions(written.name), predictions()
    assert tuple(found.names) == given.names
    for field in ("labels", "top", "confidence", "margin"):
        assert np.array_equal(getattr(found, field), getattr(given, field)), field
        assert getattr(found, field).dtype == getattr(given, field).dtype, field


def test_the_same_predictions_are_the_same_file(store):
    store.write(record(), predictions())
    before = sorted(os.listdir(store.folder))
    store.write(record(environment={"date": "later"}), predictions())
    assert sorted(os.listdir(store.folder)) == before
    assert store.read(record().name).environment == {"date": "later"}


def test_a_run_without_predictions_says_so(store):
    store.write(record())
    assert store.has(record().name)
    with pytest.raises(FileNotFoundError, match="names no predictions"):
        store.predictions(record().name)


def damage(path, how):
    whole = path.read_bytes()
    if how == "cut":
        path.write_bytes(whole[: len(whole) // 2])
    elif how == "empty":
        path.write_bytes(b"")
    elif how == "garbage":
        path.write_bytes(b"\xff\xfe\x00")
    elif how == "changed":
        path.write_bytes(whole.replace(b'"top1": 75.0', b'"top1": 76.0'))
    elif how == "list":
        path.write_text("[1, 2]")
    elif how == "schema":
        path.write_text(json.dumps({**json.loads(whole), "schema": 99}))


@pytest.mark.parametrize("how", ["cut", "empty", "garbage", "changed", "list", "schema"])
def test_a_damaged_record_is_named_and_skipped(store, how):
    for name in ("a-1", "b-2", "c-3"):
        store.write(record(name), predictions())
    damage(store.path("b-2"), how)
    assert [one.name for one in store.records()] == ["a-1", "c-3"]
    (found,) = store.damaged()
    assert found.path == store.path("b-2")
    assert str(found.path) in found.reason
    assert not store.has("b-2")
    with pytest.raises(DamagedRecordError, match=r"b-2\.json"):
        store.read("b-2")
    store.write(record("b-2"), predictions())
    assert store.damaged() == []


def test_a_renamed_record_is_not_taken_for_another(store):
    store.write(record("a-1"))
    store.path("a-1").rename(store.path("z-9"))
    assert store.records() == []
    assert "was the file renamed" in store.damaged()[0].reason


def test_damaged_and_missing_predictions_are_noticed(store):
    written = store.write(record(), predictions())
    path = store.folder / written.predictions
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(DamagedRecordError, match="is damaged"):
        store.predictions(written.name)
    path.unlink()
    assert not store.has(written.name)


def test_a_record_cannot_point_out_of_the_store(store):
    store.write(record(predictions="../secret.parquet"))
    with pytest.raises(FileNotFoundError):
        store.predictions(record().name)


def test_a_failed_write_leaves_the_old_file_and_no_other(tmp_path):
    path = tmp_path / "file"
    path.write_text("old")

    def write():
        with replacing(path) as partial:
            partial.write_text("half")
            raise RuntimeError("stop")

    with pytest.raises(RuntimeError, match="stop"):
        write()
    assert os.listdir(tmp_path) == ["file"]
    assert path.read_text() == "old"


def test_files_are_readable_by_those_who_may_read_the_folder(tmp_path):
    before = os.umask(0o022)
    try:
        with replacing(tmp_path / "file") as partial:
            partial.write_text("x")
    finally:
        os.umask(before)
    assert (tmp_path / "file").stat().st_mode & 0o777 == 0o644


def test_only_old_leftovers_are_removed(tmp_path):
    for name, age in (("old", 90000), ("new", 0)):
        path = tmp_path / f".{name}.partial"
        path.touch()
        os.utime(path, (time.time() - age,) * 2)
    (tmp_path / "record.json").touch()
    assert remove_leftovers(tmp_path) == [".old.partial"]
    assert sorted(os.listdir(tmp_path)) == [".new.partial", "record.json"]


def test_a_missing_extra_is_told_before_anything_is_computed(tmp_path, monkeypatch):
    monkeypatch.setattr("catis.errors.find_spec", lambda package: None)
    with pytest.raises(MissingExtraError, match=r"pip install 'catis\[results\]'"):
        Store(tmp_path / "store")
    assert os.listdir(tmp_path) == []


# Processes


def start(code, *arguments):
    script = "import sys\nfrom catis.runs import Store\nfrom tests.runs.records import predictions, record\n"
    command = [sys.executable, "-c", script + textwrap.dedent(code), *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


WRITER = """
    store, me = Store(sys.argv[1]), int(sys.argv[2])
    print("ready", flush=True)
    for i in range(20):
        store.write(record(f"shared-{i % 3}", environment={"by": me}), predictions(200, right=me, seed=me))
        store.write(record(f"own-{me}-{i}"), predictions(50, seed=i))
"""


def test_several_processes_write_at_once(tmp_path):
    """They share some runs, with other predictions each: a record never names those of another process."""
    writers = [start(WRITER, tmp_path, me) for me in (1, 2, 3)]
    store = Store(tmp_path)
    while any(writer.poll() is None for writer in writers):
        assert store.damaged() == []
        time.sleep(0.05)
    assert [writer.returncode for writer in writers] == [0, 0, 0]
    assert len(store.records()) == 3 + 3 * 20
    for i in range(3):
        by = store.read(f"shared-{i}").environment["by"]
        assert int(store.predictions(f"shared-{i}").correct().sum()) == by
    assert not list(tmp_path.glob(".*"))


KILLED = """
    import os, time
    from catis import files
    replace, calls = os.replace, []

    def stop(source, target):
        calls.append(target)
        if len(calls) == int(sys.argv[2]):
            print("now", flush=True)
            time.sleep(600)
        replace(source, target)

    files.os.replace = stop
    store = Store(sys.argv[1])
    store.write(record("first"), predictions())
    store.write(record("second"), predictions())
"""


@pytest.mark.parametrize("at", [3, 4])
def test_a_kill_in_mid_write_loses_that_run_only(tmp_path, at):
    """Killed as it is about to put a file of the second run in its place: predictions (3) or record (4)."""
    process = start(KILLED, tmp_path, at)
    assert process.stdout.readline() == "now\n"
    process.send_signal(signal.SIGKILL)
    process.wait()
    store = Store(tmp_path)
    assert store.names() == ["first"]
    assert store.damaged() == []
    assert len(store.predictions("first")) == 4
    assert len(list(tmp_path.glob(".*.partial"))) == 1
    assert store.clean() == []  # it could be another process's, still at work
    assert len(store.clean(older_than=-1)) == 1
    store.write(record("second"), predictions())
    assert store.names() == ["first", "second"]


def test_a_record_is_equal_after_a_round_trip(store):
    written = store.write(record(), predictions())
    again = replace(store.read(written.name), environment={})
    assert again.content() == written.content()
