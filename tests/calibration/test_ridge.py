"""The closed form: equal to least squares where nothing is held back, to the old weights where all is."""

import numpy as np
import pytest
import torch

from catis.calibration import ridge
from catis.calibration.ridge import PENALTIES, NormalEquations, best_step


def rows(n=200, inputs=5, outputs=3, seed=0):
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(n, inputs, generator=generator)
    weight, bias = torch.randn(outputs, inputs, generator=generator), torch.randn(outputs, generator=generator)
    noise = 0.1 * torch.randn(n, outputs, generator=generator)
    return x, x @ weight.T + bias + noise


def filled(x, e, weights=None, parts=4):
    equations = NormalEquations(x.shape[1], e.shape[1])
    weights = torch.ones(len(x)) if weights is None else weights
    for part in torch.arange(len(x)).chunk(parts):
        equations.add(x[part], e[part], weights[part])
    return equations


def step_of(equations, penalty):
    solution = equations.solve(equations.factor(penalty))
    return solution[:-1].T, solution[-1]


def test_without_penalty_it_is_weighted_least_squares():
    x, e = rows()
    weights = torch.rand(200) + 0.1
    weight, bias = step_of(filled(x, e, weights), 1e-9)
    root = weights.sqrt()[:, None]
    known, *_ = np.linalg.lstsq((torch.cat([x, torch.ones(200, 1)], 1) * root).numpy(), (e * root).numpy(), rcond=None)
    assert torch.allclose(weight, torch.from_numpy(known[:-1].T).double(), atol=1e-4)
    assert torch.allclose(bias, torch.from_numpy(known[-1]).double(), atol=1e-4)


def test_half_of_the_products_is_mirrored():
    """Wide layers are added up some columns at a time, each product once."""
    x, e = rows(inputs=2 * ridge._COLUMNS + 7)
    weights = torch.rand(200)
    whole = torch.cat([x, torch.ones(200, 1)], 1).double()
    square = filled(x, e, weights)._square
    assert torch.allclose(square, whole.T @ (whole * weights[:, None]), atol=1e-3)


def test_a_factor_leaves_the_equations_as_they_are():
    equations = filled(*rows())
    before = equations._square.clone()
    factor = equations.factor(10.0)
    assert torch.equal(equations._square, before)
    assert not torch.allclose(factor @ factor.T, before)


def test_an_endless_penalty_changes_nothing():
    weight, bias = step_of(filled(*rows()), 1e12)
    assert weight.abs().max() < 1e-8
    assert bias.abs().max() < 1e-6


def test_the_error_is_that_of_the_rows():
    x, e = rows()
    equations = filled(x, e)
    solution = equations.solve(equations.factor(0.1))
    left = e - (x @ solution[:-1].float() + solution[-1].float())
    assert np.isclose(equations.error(solution), float(left.square().sum()), rtol=1e-4)


def test_a_part_is_as_if_the_other_inputs_and_outputs_were_not_there():
    x, e = rows()
    part, alone = filled(x, e).part(slice(None, None, 2), slice(None, None, 2)), filled(x[:, ::2], e[:, ::2])
    assert (part.inputs, part.outputs) == (alone.inputs, alone.outputs) == (3, 2)
    solution = part.solve(part.factor(0.1))
    assert torch.allclose(solution, alone.solve(alone.factor(0.1)), atol=1e-12)
    assert np.isclose(part.error(solution), alone.error(solution))


def test_the_penalty_is_chosen_on_held_out_rows():
    x, e = rows(n=412, inputs=10)
    few, held_out = filled(x[:12], e[:12]), filled(x[12:], e[12:])  # 12 rows: without a penalty it follows their noise
    best = best_step(few, held_out)
    assert best is not None
    errors = [held_out.error(few.solve(few.factor(penalty))) for penalty in PENALTIES]
    error = held_out.error(torch.cat([best[0].T, best[1][None]]))
    assert error == min(errors) < errors[0]


def test_a_wide_layer_takes_the_penalty_that_some_of_it_choose(monkeypatch):
    x, e = rows(n=412, inputs=10)
    few, held_out = filled(x[:12], e[:12]), filled(x[12:], e[12:])
    monkeypatch.setattr(ridge, "WEIGHTS", few.inputs * few.outputs // 2)
    monkeypatch.setattr(ridge, "INPUTS", few.inputs // 2)
    some = slice(None, None, 2), slice(None, None, 2)
    own, others = few.part(*some), held_out.part(*some)
    errors = [others.error(own.solve(own.factor(penalty))) for penalty in PENALTIES]
    weight, bias = step_of(few, PENALTIES[errors.index(min(errors))])
    best = best_step(few, held_out)
    assert torch.equal(best[0], weight)
    assert torch.equal(best[1], bias)


@pytest.mark.parametrize("least", range(8))
def test_the_least_error_is_found_in_few_steps_wherever_it_is(least):
    looked: list[int] = []

    def error(place):
        looked.append(place)
        return (place - least) ** 2

    assert ridge._lowest(error, 8) == least
    assert len(looked) == len(set(looked)) <= abs(least - 4) + 3


def test_nothing_is_changed_where_held_out_rows_say_no():
    x, e = rows()
    assert best_step(filled(x, e), filled(x, -e)) is None
    assert best_step(NormalEquations(3, 2), NormalEquations(3, 2)) is None


def test_a_layer_without_bias_gets_none():
    x, e = rows()
    equations = NormalEquations(5, 3, intercept=False)
    equations.add(x, e, torch.ones(200))
    assert step_of(equations, 1e-3)[1].abs().max() == 0
