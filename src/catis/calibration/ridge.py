"""Ridge regression in closed form: normal equations added up batch by batch, solved in float64."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import torch
from torch import Tensor

PENALTIES = tuple(10.0**power for power in range(-4, 4))
"""Penalties that are tried, in units of the mean square of an input."""
WEIGHTS = 192 * 768
"""Weights of a layer that have a say in its penalty, by every n-th output: solving for all of them takes too long."""
INPUTS = 1536
"""Inputs of a layer that have a say in its penalty; with twice as many a factor takes eight times as long. On a ViT-B
half of the inputs chose what all of them would in ten of twelve blocks, and its neighbour in two."""
_COLUMNS = 512  # of X'WX at a time, so that little more than one half of it is computed: the other is its mirror
_BIAS = 1e-3  # a bias is one number per output, and hardly needs holding back


class NormalEquations:
    """What least squares needs to know of any number of rows: X'WX, X'WE and E'WE, in float64.

    Products of one batch are made in the precision of the rows, their sums in float64: the memory does not grow with
    the rows, and the rounding of a batch is far below the smallest penalty.

    Args:
        inputs: Width of a row of X.
        outputs: Width of a row of E.
        intercept: Whether there is a bias to fit.
        device: Where the rows lie.

    Example:
        >>> equations = NormalEquations(1, 1)
        >>> equations.add(torch.tensor([[1.0], [2.0]]), torch.tensor([[2.0], [4.0]]), torch.ones(2))
        >>> solution = equations.solve(equations.factor(1e-9))
        >>> round(solution[0].item(), 3), equations.error(solution) < 1e-6
        (2.0, True)
    """

    def __init__(
        self, inputs: int, outputs: int, *, intercept: bool = True, device: torch.device | None = None
    ) -> None:
        self._square = torch.zeros(inputs + 1, inputs + 1, dtype=torch.float64, device=device)
        self._cross = torch.zeros(inputs + 1, outputs, dtype=torch.float64, device=device)
        self._intercept, self.inputs, self.outputs = float(intercept), inputs, outputs
        self._errors = torch.zeros(outputs, dtype=torch.float64, device=device)

    def add(self, rows: Tensor, errors: Tensor, weights: Tensor) -> None:
        """Add (n, inputs) rows, the (n, outputs) errors to explain, and (n,) weights."""
        rows = torch.cat([rows, rows.new_full((len(rows), 1), self._intercept)], 1)  # the last column is the bias's
        weighted = rows * weights[:, None]
        for start in range(0, rows.shape[1], _COLUMNS):
            own = slice(start, start + _COLUMNS)
            product = weighted[:, own].T @ rows[:, : own.stop]
            self._square[own, : own.stop] += product
            self._square[:start, own] += product[:, :start].T
        self._cross += weighted.T @ errors
        self._errors += (errors.square() * weights[:, None]).sum(0)

    def factor(self, penalty: float) -> Tensor:
        """(inputs + 1, inputs + 1) Cholesky factor of X'WX with the penalty on its diagonal."""
        diagonal = self._square.diagonal()
        without = diagonal.clone()
        diagonal[:-1] += penalty * without[:-1].mean()
        diagonal[-1] += penalty * without[:-1].mean() * _BIAS
        factor: Tensor
        factor, failed = torch.linalg.cholesky_ex(self._square)
        diagonal.copy_(without)  # put back: a copy of the matrix is 75 MB in a ViT-B
        if int(failed):
            raise ValueError("the inputs of a layer are not finite, or all zero: it cannot be calibrated")
        return factor

    def solve(self, factor: Tensor) -> Tensor:
        """(inputs + 1, outputs) weights, and bias in the last row, that explain the errors best."""
        return torch.cholesky_solve(self._cross, factor)

    def error(self, solution: Tensor) -> float:
        """Weighted sum of squares that a solution leaves of the errors."""
        explained = 2 * (solution * self._cross).sum() - (solution * (self._square @ solution)).sum()
        return self.total() - float(explained)

    def total(self) -> float:
        """Weighted sum of squares of the errors."""
        return float(self._errors.sum())

    def part(self, inputs: slice, outputs: slice) -> NormalEquations:
        """The equations of some inputs, and of the bias, for some outputs: as if there were no others."""
        kept = [*range(self.inputs)[inputs], self.inputs]
        part = NormalEquations(0, 0, intercept=bool(self._intercept))
        part.inputs, part.outputs = len(kept) - 1, len(range(self.outputs)[outputs])
        whole = part.inputs == self.inputs  # a copy of the matrix is 75 MB in a ViT-B
        part._square = self._square if whole else self._square[kept][:, kept]
        part._cross = self._cross[kept, outputs]
        part._errors = self._errors[outputs]
        return part


def best_step(fitted: NormalEquations, held_out: NormalEquations) -> tuple[Tensor, Tensor] | None:
    """The ridge solution whose penalty does best on held-out rows; None if none lowers the error there.

    Example:
        >>> rows, errors = torch.eye(3), torch.ones(3, 1)
        >>> fitted, held_out = NormalEquations(3, 1), NormalEquations(3, 1)
        >>> fitted.add(rows, errors, torch.ones(3)); held_out.add(rows, -errors, torch.ones(3))
        >>> best_step(fitted, held_out) is None
        True
    """
    some = slice(None, None, max(1, fitted.inputs * fitted.outputs // WEIGHTS))
    narrow = slice(None, None, max(1, fitted.inputs // INPUTS))
    judging = held_out.part(slice(None), some)
    if judging.total() <= 0:  # nothing was added, or nothing is left to explain
        return None
    own, others = fitted.part(narrow, some), held_out.part(narrow, some)
    penalty = PENALTIES[_lowest(lambda place: others.error(own.solve(own.factor(PENALTIES[place]))), len(PENALTIES))]
    solution = fitted.solve(fitted.factor(penalty))
    if judging.error(solution[:, some]) >= judging.total():
        return None
    return solution[:-1].T, solution[-1]


def _lowest(error: Callable[[int], float], places: int) -> int:
    """Where the error is least, of so many places: it falls towards its least from both sides, so a walk finds it."""
    error = cache(error)
    place = places // 2
    step = 1 if error(place + 1) < error(place) else -1
    while 0 <= place + step < places and error(place + step) < error(place):
        place += step
    return place
