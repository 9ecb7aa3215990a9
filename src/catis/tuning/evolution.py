"""Evolves the numbers of a candidate with CMA-ES: shape of the schedule, gain of the size term, options."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from catis.errors import require
from catis.tuning.candidates import Candidate

Vector = NDArray[np.float64]
POPULATION = 8
MOST = 4.0
"""How many times faster or slower than 1 tokens may go at a place of a shape."""
UNREACHED = 1e9
"""Stands for a candidate that cannot reach the budget: the strategy does not take infinity."""
OPTIONS: dict[str, dict[str, tuple[float, float, float]]] = {
    "catis": {
        "gamma": (0.5, 0.0, 1.0),
        "w_cls": (0.5, 0.0, 1.0),
        "tau": (1.0, 0.3, 2.5),
        "evict_ratio": (0.5, 0.0, 1.0),
    },
    "cluster": {"power": (0.4, 0.1, 1.0)},
}
"""Default, least and most of the options that are evolved; L_start of CATIS, as a share of the depth, besides."""
GAINS = {"first gain": 1.5, "last gain": 1.5, "soften": 0.4}
"""What the lever `gain` evolves, from 0, and the most of each."""


def evolve(
    start: Candidate,
    values: Callable[[Sequence[Candidate]], list[float]],
    levers: Collection[str],
    depth: int,
    seed: int,
) -> Iterator[Candidate]:
    """The best candidate of each generation, for as long as the caller asks.

    Args:
        start: Where to begin.
        values: What is minimised, of several candidates.
        levers: What may change.
        depth: Blocks of the model.
        seed: Of the random numbers.
    """
    code = _Code(start, levers, depth)
    if not code.names:
        return
    require("catis tune", "tune", "cmaes")
    from cmaes import CMA

    bounds = np.tile([0.0, 1.0], (len(code.names), 1))
    strategy = CMA(code.encode(start), sigma=0.15, bounds=bounds, seed=seed, population_size=POPULATION)
    while not strategy.should_stop():
        asked = [strategy.ask() for _ in range(strategy.population_size)]
        worth = values([code.decode(vector) for vector in asked])
        strategy.tell([(vector, min(value, UNREACHED)) for vector, value in zip(asked, worth, strict=True)])
        yield code.decode(asked[worth.index(min(worth))])


class _Code:
    """A candidate's numbers as a vector in the unit cube, and back."""

    def __init__(self, start: Candidate, levers: Collection[str], depth: int) -> None:
        self.start, self.depth = start, depth
        self.names = [f"shape {place}" for place in range(len(start.shape))] if "schedule" in levers else []
        self.names += list(GAINS) if "gain" in levers else []
        self.options = OPTIONS.get(start.method, {}) if "theta" in levers else {}
        self.names += [*self.options, *(["l_start"] if self.options and start.method == "catis" else [])]

    def encode(self, candidate: Candidate) -> Vector:
        """The vector of a candidate."""
        return np.clip([self._out(name, candidate) for name in self.names], 0.02, 0.98)

    def decode(self, vector: Vector) -> Candidate:
        """The candidate of a vector; numbers are rounded, so that a recipe stays readable."""
        told = dict(zip(self.names, map(float, vector), strict=True))
        shape = tuple(
            round(_spread(told[f"shape {place}"]), 3) if f"shape {place}" in told else old
            for place, old in enumerate(self.start.shape)
        )
        most = [round(told[name] * top, 3) for name, top in GAINS.items() if name in told]
        gain, soften = ((most[0], most[1]), most[2]) if most else (self.start.gain, self.start.soften)
        options = dict(self.start.options)
        for name, (_, low, high) in self.options.items():
            options[name] = round(low + (high - low) * told[name], 3)
        if "l_start" in told:
            options["l_start"] = round(told["l_start"] * self.depth * 0.75)
        return replace(self.start, shape=shape, gain=gain, soften=soften, options=options)

    def _out(self, name: str, candidate: Candidate) -> float:
        if name.startswith("shape"):
            return _gather(candidate.shape[int(name.split()[1])])
        if name in GAINS:
            now = dict(zip(GAINS, (*candidate.gains, candidate.softens), strict=True))
            return now[name] / GAINS[name]
        if name == "l_start":
            return float(candidate.options.get("l_start", 2)) / (self.depth * 0.75)
        default, low, high = self.options[name]
        return (float(candidate.options.get(name, default)) - low) / (high - low)


def _spread(unit: float) -> float:
    """0 .. 1 to 1 / MOST .. MOST, on a logarithmic scale."""
    return math.exp((2 * unit - 1) * math.log(MOST))


def _gather(number: float) -> float:
    return (math.log(max(number, 1 / MOST)) / math.log(MOST) + 1) / 2
