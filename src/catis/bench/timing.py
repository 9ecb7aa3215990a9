"""What a step takes: time, in turns with others so that a slow minute hits all of them alike; and peak memory."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np
import torch
from torch.autograd.profiler import profile
from torch.utils.benchmark import Timer

from catis.errors import is_out_of_memory

Step = Callable[[], object]
Progress = Callable[[int, int], None]
KeyT = TypeVar("KeyT", bound=Hashable)
FEWEST_ROUNDS = 3
"""Rounds that run whatever the time limit says: fewer have no quartiles."""


@dataclass(frozen=True)
class Timed(Generic[KeyT]):
    """Seconds of every step, one entry per round, so that those of two steps are pairs; and why a step has none."""

    seconds: Mapping[KeyT, Sequence[float]]
    failed: Mapping[KeyT, str]


def time_rounds(
    steps: Mapping[KeyT, Step],
    rounds: int,
    *,
    warmup: int = 2,
    max_seconds: float | None = None,
    threads: int | None = None,
    seed: int = 0,
    progress: Progress | None = None,
) -> Timed[KeyT]:
    """Run every step once per round, in random order.

    `torch.utils.benchmark.Timer` does the timing: it synchronises an accelerator, holds the garbage collector, and runs
    each step once untimed before each timed pass, so that none pays for the caches that another left cold.

    Args:
        warmup: Untimed passes of each step before the first round.
        max_seconds: Time limit per step, warm-up not counted; it ends the rounds early, but not before three.
        threads: Threads of PyTorch; those it is set to by default.
        progress: Told after each round how many of all are done.

    Example:
        >>> timed = time_rounds({"a": lambda: sum(range(9)), "b": lambda: 0}, rounds=4)
        >>> {name: len(seconds) for name, seconds in timed.seconds.items()}
        {'a': 4, 'b': 4}
    """
    threads = threads or torch.get_num_threads()
    timers = {key: _timer(step, threads) for key, step in steps.items()}
    failed = {key: problem for key, step in steps.items() if (problem := _warm_up(step, warmup, threads))}
    seconds: dict[KeyT, list[float]] = {key: [] for key in steps if key not in failed}
    order, start = random.Random(seed), time.perf_counter()
    for number in range(rounds):
        for key in order.sample(list(seconds), len(seconds)):
            try:
                seconds[key].append(_once(timers[key]))
            except (RuntimeError, MemoryError) as error:
                failed[key] = _told(error)
                del seconds[key]
        if progress is not None:
            progress(number + 1, rounds)
        if _spent(time.perf_counter() - start, number + 1, len(seconds), max_seconds):
            break
    return Timed(seconds, failed)


def least_seconds(step: Step, repeats: int, threads: int | None = None) -> float:
    """Shortest time of a step that runs alone: what it takes when nothing disturbs it."""
    timer = _timer(step, threads or torch.get_num_threads())
    return min(_once(timer) for _ in range(repeats))


@dataclass(frozen=True)
class Ratio:
    """Median and quartiles of a ratio over rounds."""

    median: float
    low: float
    high: float


def paired_ratio(slow: Sequence[float], fast: Sequence[float]) -> Ratio:
    """How many times as long `slow` took as `fast`, round by round.

    Example:
        >>> paired_ratio([2.0, 4.0, 6.0], [1.0, 1.0, 2.0])
        Ratio(median=3.0, low=2.5, high=3.5)
    """
    low, median, high = np.percentile(np.asarray(slow) / np.asarray(fast), (25, 50, 75))
    return Ratio(float(median), float(low), float(high))


def _timer(step: Step, threads: int) -> Timer:
    return Timer("step()", globals={"step": step}, num_threads=threads)


def _once(timer: Timer) -> float:
    """Seconds of one pass, after one untimed pass: what an autorange of no length does."""
    return timer.blocked_autorange(min_run_time=0.0).median


def _warm_up(step: Step, passes: int, threads: int) -> str:
    """Why the step cannot be timed; empty if it can. Always runs once, so that a failure shows here."""
    timer = _timer(step, threads)
    try:
        for _ in range(max(1, passes // 2)):  # two passes each
            _once(timer)
    except (RuntimeError, MemoryError) as error:
        return _told(error)
    return ""


def _told(error: RuntimeError | MemoryError) -> str:
    """One line for the row of a step that failed; what is not a lack of memory is raised again."""
    if is_out_of_memory(error):
        return "out of memory"
    raise error


def _spent(elapsed: float, done: int, steps: int, max_seconds: float | None) -> bool:
    """Whether another round would not end within the limit."""
    if max_seconds is None or done < FEWEST_ROUNDS:
        return False
    return elapsed * (done + 1) / done > max_seconds * steps


def peak_bytes(step: Step, device: torch.device) -> int:
    """Most that PyTorch's allocator held at once during a pass, above what was there before it (weights, input).

    On CPU every allocation and release is read from the profiler. The working memory of catis' compiled functions
    (one image per thread) is not in it: small beside the tokens.
    On CUDA it is `torch.cuda.max_memory_allocated`.

    Example:
        >>> peak_bytes(lambda: torch.ones(1000), torch.device("cpu"))
        4000
    """
    return _cuda_peak(step, device) if device.type == "cuda" else _cpu_peak(step)


def _cuda_peak(step: Step, device: torch.device) -> int:
    torch.cuda.synchronize(device)
    torch.cuda.reset_peak_memory_stats(device)
    before = torch.cuda.memory_allocated(device)
    step()
    torch.cuda.synchronize(device)
    return torch.cuda.max_memory_allocated(device) - before


def _cpu_peak(step: Step) -> int:
    with _quiet_profiler(), profile(profile_memory=True) as profiled:
        step()
    assert profiled.kineto_results is not None
    events = [event for event in profiled.kineto_results.events() if event.name() == "[memory]"]
    held = peak = 0
    for event in sorted(events, key=lambda event: event.start_ns()):
        held += event.nbytes()
        peak = max(peak, held)
    return peak


@contextmanager
def _quiet_profiler() -> Iterator[None]:
    """Kineto logs to the terminal that there is no GPU, each time; it reads this variable when it starts."""
    name = "KINETO_LOG_LEVEL"
    before = os.environ.get(name)
    os.environ[name] = "99"
    try:
        yield
    finally:
        os.environ.pop(name)
        os.environ.update({} if before is None else {name: before})
