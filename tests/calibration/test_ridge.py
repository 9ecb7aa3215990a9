"""The closed form: equal to least squares where nothing is held back, to the old weights where all is."""

import numpy as np
import torch

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


def test_without_penalty_it_is_weighted_least_squares():
    x, e = rows()
    weights = torch.rand(200) + 0.1
    weight, bias = filled(x, e, weights).solve(1e-9)
    root = weights.sqrt()[:, None]
    known, *_ = np.linalg.lstsq((torch.cat([x, torch.ones(200, 1)], 1) * root).numpy(), (e * root).numpy(), rcond=None)
    assert torch.allclose(weight, torch.from_numpy(known[:-1].T).double(), atol=1e-4)
    assert torch.allclose(bias, torch.from_numpy(known[-1]).double(), atol=1e-4)


def test_an_endless_penalty_changes_nothing():
    weight, bias = filled(*rows()).solve(1e12)
    assert weight.abs().max() < 1e-8
    assert bias.abs().max() < 1e-6


def test_the_error_is_that_of_the_rows():
    x, e = rows()
    equations = filled(x, e)
    step = equations.solve(0.1)
    left = e - (x @ step[0].T.float() + step[1].float())
    assert np.isclose(equations.error(step), float(left.square().sum()), rtol=1e-4)


def test_the_penalty_is_chosen_on_held_out_rows():
    x, e = rows(n=412, inputs=10)
    few, held_out = filled(x[:12], e[:12]), filled(x[12:], e[12:])  # 12 rows: without a penalty it follows their noise
    best = best_step(few, held_out)
    assert best is not None
    assert held_out.error(best) == min(held_out.error(few.solve(penalty)) for penalty in PENALTIES)
    assert held_out.error(best) < held_out.error(few.solve(PENALTIES[0]))


def test_nothing_is_changed_where_held_out_rows_say_no():
    x, e = rows()
    assert best_step(filled(x, e), filled(x, -e)) is None
    assert best_step(NormalEquations(3, 2), NormalEquations(3, 2)) is None


def test_a_layer_without_bias_gets_none():
    x, e = rows()
    equations = NormalEquations(5, 3, intercept=False)
    equations.add(x, e, torch.ones(200))
    assert equations.solve(1e-3)[1].abs().max() == 0
