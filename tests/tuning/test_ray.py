"""`catis tune --ray`: candidates are compared by the workers of a cluster, with the same result as here."""

import json
import os
import signal
import sys
from contextlib import contextmanager

import pytest
from typer.testing import CliRunner

import catis
from catis import zoo
from catis.cli import app
from catis.errors import CatisError
from catis.tuning import ray_answers


class Remote:
    """An actor's class or method that is called at once, as far as a tuning knows."""

    def __init__(self, called):
        self.called = called

    def remote(self, *arguments):
        made = self.called(*arguments)
        if isinstance(made, ray_answers._Worker):
            made.answer = Remote(made.answer)
        return made


class Cluster:
    """Ray with three places, in this process."""

    def __init__(self):
        self.killed, self.asked, self.options = [], 0, {}

    def cluster_resources(self):
        return {"CPU": 3.0}

    def put(self, value):
        return value

    def get(self, values):
        self.asked += len(values)
        return values

    def remote(self, **options):
        self.options = options
        return Remote

    def kill(self, worker):
        self.killed.append(worker)


@pytest.fixture
def cluster(monkeypatch):
    made = Cluster()

    @contextmanager
    def connected(address):
        made.address = address
        yield made

    monkeypatch.setattr(ray_answers, "connected", connected)
    monkeypatch.setattr(ray_answers, "require", lambda *arguments: None)
    return made


def call(photos, folder, *more):
    wish = ["tune", "tiny-6", "--data", str(photos), "--budget", "0.5", "--minutes", "1.5", "-o", str(folder), *more]
    levers = ("calibration", "size", "operator", "theta", "weights")
    return [*wish, *(f"--without={lever}" for lever in levers)]


def recipe(folder):
    return {**json.loads((folder / "catis_recipe.json").read_text()), "made": None}


def test_the_command_asks_the_workers_and_lets_them_go(cluster, folder_of_photos, tmp_path, little_work):
    for name, more in (("there", ["--ray", "head:6379"]), ("here", [])):
        result = CliRunner().invoke(app, call(folder_of_photos, tmp_path / name, *more))
        assert result.exit_code == 0, result.output
    assert cluster.address == "head:6379"
    assert cluster.asked > 5
    assert len(cluster.killed) == 3
    assert cluster.options == {"num_cpus": 1, "max_restarts": -1, "max_task_retries": -1}
    assert recipe(tmp_path / "there") == recipe(tmp_path / "here")


def test_workers_are_let_go_after_an_error_too(cluster, images, quick):
    def stop(what, best):
        raise RuntimeError(what)

    with pytest.raises(RuntimeError, match="shapes"):
        catis.tune(zoo.load("tiny-6"), images[:24], budget=0.5, ray="head:6379", report=stop, **quick)
    assert len(cluster.killed) == 3


def test_without_ray_the_pip_command_is_named(images, quick, monkeypatch):
    monkeypatch.setattr("catis.errors.find_spec", lambda package: None)
    with pytest.raises(CatisError, match=r"pip install 'catis\[ray\]'"):
        catis.tune(zoo.load("tiny-6"), images[:24], budget=0.5, ray="local", **quick)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="sends SIGKILL")
def test_a_real_cluster_survives_the_loss_of_a_worker(folder_of_photos, tmp_path, little_work, monkeypatch):
    """`--ray local`; the first worker that answers is killed then, and comes back."""
    pytest.importorskip("ray")
    plain, lost = ray_answers._in_turn, []

    def in_turn(ray, workers):
        pids = ray.get([worker.pid.remote() for worker in workers])
        os.kill(pids[0], signal.SIGKILL)
        lost.append(pids[0])
        return plain(ray, workers)

    monkeypatch.setattr(ray_answers, "_in_turn", in_turn)
    for name, more in (("there", ["--ray", "local"]), ("here", [])):
        result = CliRunner().invoke(app, call(folder_of_photos, tmp_path / name, *more))
        assert result.exit_code == 0, result.output
    assert lost
    assert recipe(tmp_path / "there") == recipe(tmp_path / "here")
