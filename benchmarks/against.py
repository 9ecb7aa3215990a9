"""Two checkouts of catis beside each other: a worker process each, which runs one pass whenever it is asked to.

`benchmarks/efficiency.py --against OLD` uses it. In a round every worker is asked once, in random order, and none runs
while another does, so a slow minute of the machine hits old and new alike; a ratio is the median over rounds of new
over old.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

HERE = Path(__file__).parents[1]


class Worker:
    """A process that imports catis from one checkout.

    Args:
        checkout: The checkout.
        compiled: Whether it may use the compiled functions.
    """

    def __init__(self, checkout: Path, compiled: bool) -> None:
        environment = {**os.environ, "PYTHONPATH": str(checkout / "src"), "CATIS_NATIVE": "1" if compiled else "0"}
        self._process = subprocess.Popen(
            [sys.executable, __file__], env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        home = self.ask({"do": "where"})
        if not home.startswith(str(checkout)):
            raise SystemExit(f"{checkout}: catis was imported from {home}")

    def ask(self, request: dict[str, Any]) -> Any:
        """The answer to one request."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            raise SystemExit(f"a worker ended with {self._process.wait()}")
        return json.loads(line)

    def close(self) -> None:
        """End the process."""
        self._process.communicate()


def seconds_of(workers: dict[str, Worker], case: dict[str, Any], rounds: int) -> dict[str, list[float]]:
    """Seconds of every worker in every round of one case: model, batch, method, r."""
    for worker in workers.values():
        worker.ask({"do": "make", **case})
    seconds: dict[str, list[float]] = {name: [] for name in workers}
    order = random.Random(0)
    for number in range(rounds + 1):  # the first warms up
        for name in order.sample(list(workers), len(workers)):
            taken = workers[name].ask({"do": "run"})
            seconds[name] += [taken] if number else []
    return seconds


def serve() -> None:
    """Answer requests until the pipe is closed."""
    import timm
    import torch

    import catis

    model = images = None
    for line in sys.stdin:
        request = json.loads(line)
        answer: Any = catis.__file__
        if request["do"] == "make":
            torch.manual_seed(0)
            model = timm.create_model(request["model"]).eval()
            images = torch.randn(request["batch"], *model.pretrained_cfg["input_size"])
            catis.apply(model, request["method"], r=request["r"])
        elif request["do"] == "run":
            with torch.inference_mode():
                model(images)  # untimed: the other process has emptied the caches
                start = time.perf_counter()
                model(images)
                answer = time.perf_counter() - start
        print(json.dumps(answer), flush=True)


def check(old: Path) -> Path:
    """The old checkout, which must have its compiled functions, as this one must."""
    old = old.resolve()
    for checkout in (old, HERE):
        if not (checkout / "src" / "catis").is_dir():
            raise SystemExit(f"{checkout} is no checkout of catis: there is no src/catis in it")
        if not list((checkout / "src" / "catis" / "native").glob("*.so")):
            raise SystemExit(f"{checkout} has no compiled functions: run pip install -e . --no-deps in it first")
    return old


if __name__ == "__main__":
    serve()
