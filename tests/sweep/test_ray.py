"""A real Ray cluster: a worker is killed in the middle of a sweep, and the store is that of a local sweep."""

import os
import signal
import sys
import time
from pathlib import Path

import pytest

from catis.errors import CatisError, MissingExtraError
from catis.runs.store import Store
from catis.sweep.events import Events
from catis.sweep.jobs import expand
from catis.sweep.local import run_here
from catis.sweep.plan import read_plan
from catis.sweep.ray_cluster import connected, run_on_ray


class Killer(Events):
    """Kills the worker that gets the third run, as soon as it has it."""

    def __init__(self) -> None:
        super().__init__()
        self.starts: list[tuple[str, int]] = []
        self.losses: list[str] = []

    def started(self, job, worker):
        self.starts.append((job.label, worker))
        if len(self.starts) == 3:
            os.kill(worker, signal.SIGKILL)

    def lost(self, job, reason):
        self.losses.append(job.label)


class CountingStore(Store):
    """Counts how often each run was written."""

    def __init__(self, folder) -> None:
        super().__init__(folder)
        self.writes: list[str] = []

    def write(self, record, predictions=None):
        self.writes.append(record.name)
        return super().write(record, predictions)


def gone(pid: int) -> bool:
    """Whether a process has ended, or does within some seconds; one that nobody has reaped has ended too."""
    for _ in range(300):
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
        except (FileNotFoundError, ProcessLookupError):
            return True
        if state == "Z":
            return True
        time.sleep(0.1)
    return False


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="looks for processes in /proc")
def test_a_killed_worker_loses_nothing_and_records_are_those_of_a_local_sweep(plan, tmp_path, cache):
    broken = tmp_path / "images" / "anchor"
    broken.mkdir(parents=True)
    (broken / "a.png").write_bytes(b"no image")
    classes = tmp_path / "classes.txt"
    classes.write_text("anchor")
    plan.write_text(plan.read_text() + f'[[data]]\nname = "own"\nroot = "{broken.parent}"\nclass_map = "{classes}"\n')
    jobs, good = expand(read_plan(plan)), expand(read_plan(plan), skip=["* own"])
    events, store = Killer(), CountingStore(tmp_path / "ray")
    with connected("local") as ray:
        run_on_ray(jobs, store, events, "auto", threads=1, cache=cache)
        assert ray.is_initialized()  # a connection that was there is left
    assert all(gone(pid) for _, pid in events.starts)

    here = Store(tmp_path / "here")
    run_here(good, here, Events(), threads=1, cache=cache)
    assert events.losses == [events.starts[2][0]]
    assert sorted(store.writes) == here.names() == store.names()
    assert [store.read(name).content() for name in here.names()] == [record.content() for record in here.records()]
    assert {record.environment["threads"] for record in store.records()} == {1}
    failures = {job.label: error for job, error in events.failures}
    assert list(failures) == [job.label for job in jobs if job.data == "own"]
    assert "none of 1 images could be read" in failures["small vanilla own"]
    assert "vanilla run that it is compared with failed" in failures["small catis r=8 own"]


def test_without_ray_the_pip_command_is_named(plan, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    monkeypatch.setattr("catis.errors.find_spec", lambda package: None)
    with pytest.raises(MissingExtraError, match=r"pip install 'catis\[ray\]'"):
        run_on_ray(expand(read_plan(plan)), Store.__new__(Store), Events(), "local")


def test_no_cluster_there():
    with pytest.raises(CatisError, match=r"no Ray cluster at 'ray://127.0.0.1:1'"), connected("ray://127.0.0.1:1"):
        pass
