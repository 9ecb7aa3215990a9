"""The training script's parts: growing keeps the function, checkpoints keep everything, Muon orthogonalises."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import torch

from catis.zoo.models import build

FOLDER = Path(__file__).parents[2] / "training"
pytestmark = pytest.mark.skipif(not FOLDER.exists(), reason="the training scripts are not part of a release archive")


@pytest.fixture(autouse=True)
def _scripts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(FOLDER))
    for name in ("grow", "checkpoint", "muon"):
        monkeypatch.delitem(sys.modules, name, raising=False)


@pytest.mark.parametrize(("small", "large"), [("tiny-6", "tiny-12"), ("tiny-12", "tiny-18"), ("tiny-12", "tiny-24")])
def test_grown_model_computes_what_the_small_one_did(small: str, large: str) -> None:
    from grow import grow_

    torch.manual_seed(0)
    old, new = build(small).eval(), build(large).eval()
    grow_(new, old.state_dict())
    x = torch.randn(2, 3, 96, 96)
    torch.testing.assert_close(new(x), old(x))


def test_cannot_grow_unevenly() -> None:
    from grow import grow_

    with pytest.raises(ValueError, match="cannot grow 12 blocks into 6"):
        grow_(build("tiny-6"), build("tiny-12").state_dict())


def test_checkpoint_restores_model_and_optimiser(tmp_path: Path) -> None:
    from checkpoint import load_state, save_state
    from muon import BatchedMuon

    def fresh() -> tuple[torch.nn.Module, list[torch.optim.Optimizer]]:
        model = torch.nn.Sequential(torch.nn.Linear(4, 8, bias=False), torch.nn.LayerNorm(8))
        return model, [BatchedMuon(model[0].parameters()), torch.optim.AdamW(model[1].parameters())]

    def step(model: torch.nn.Module, opts: list[torch.optim.Optimizer]) -> None:
        model(torch.ones(2, 4)).square().mean().backward()
        for opt in opts:
            opt.step()
            opt.zero_grad()

    model, opts = fresh()
    step(model, opts)
    save_state(tmp_path / "a.safetensors", model, opts, 1, 2.5)
    other, other_opts = fresh()
    assert load_state(tmp_path / "a.safetensors", other, other_opts) == (1, 2.5)
    step(model, opts)
    step(other, other_opts)
    for a, b in zip(model.parameters(), other.parameters(), strict=True):
        torch.testing.assert_close(a, b)


def test_muon_makes_singular_values_near_one() -> None:
    from muon import orthogonalise

    torch.manual_seed(0)
    values = torch.linalg.svdvals(orthogonalise(torch.randn(3, 8, 20)))
    assert values.min() > 0.5
    assert values.max() < 1.3
