"""No result is of old and new weights: a call during which another thread exchanges calibrated ones says so."""

from __future__ import annotations

import threading

import pytest
import torch
from torch import Tensor, nn

import catis
from catis import hosts, zoo

from .test_correction import corrected, images, model_and_layers, run

PATIENT = 30  # seconds until a thread that should be done counts as stuck


class Held:
    """A call in another thread, which a hook in its midst holds until it is let go."""

    def __init__(self, model: nn.Module, x: Tensor) -> None:
        self.inside, self.free = threading.Event(), threading.Event()
        self.results: list[Tensor] = []
        self.said: list[str] = []
        inner = [module for module in model.modules() if isinstance(module, nn.LayerNorm)][-2]
        self.handle = inner.register_forward_hook(self._hold)
        self.thread = threading.Thread(target=self._call, args=(model, x))
        self.thread.start()
        assert self.inside.wait(PATIENT)

    def _call(self, model: nn.Module, x: Tensor) -> None:
        try:
            self.results.append(run(model, x))
        except RuntimeError as error:
            self.said.append(str(error))

    def _hold(self, *called: object) -> None:
        self.inside.set()
        self.free.wait(PATIENT)

    def end(self) -> None:
        self.handle.remove()
        self.free.set()
        self.thread.join(PATIENT)


@pytest.mark.parametrize("library", ["timm", "transformers"])
@pytest.mark.parametrize("change", ["remove", "others", "twice"])
def test_a_call_says_that_weights_were_exchanged_while_it_ran(library: str, change: str) -> None:
    """In both models the last layer is calibrated; transformers keeps it in the model around the reduced one."""
    model, layers = model_and_layers(library)
    x, vanilla = images(model), run(model, images(model))
    correction = corrected(model, layers)
    others = hosts.find(model).correction_of({name: value * 0.5 for name, value in correction.values.items()})
    held = Held(model, x)
    if change == "remove":
        catis.remove(model)
    else:
        catis.apply(model, "tome", r=3, correction=others)
    if change == "twice":
        catis.apply(model, "tome", r=3, correction=correction)
    held.end()
    assert held.results == []
    assert "another thread put calibrated weights on this" in held.said[0]
    run(model, x)  # the next call is as any other
    assert torch.equal(run(catis.remove(model), x), vanilla)


def test_a_call_during_an_exchange_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    model, layers = model_and_layers("timm")
    x = images(model)
    corrected(model, layers)
    handle, said = hosts.find(model), []
    give_back = type(handle)._give_back

    def called_meanwhile(self: object) -> None:
        with pytest.raises(RuntimeError, match="another thread put calibrated weights"):
            run(model, x)
        said.append(True)
        give_back(self)

    monkeypatch.setattr(type(handle), "_give_back", called_meanwhile)
    handle.uninstall()
    assert said == [True]


def test_only_weights_matter_not_the_reduction() -> None:
    """A call ends with the reduction it began with while another thread applies a second one, fitted weights or not."""
    data = torch.cat([batch for batch, _ in zoo.dataset("clean", "val", n=96).batches(32)])
    model = catis.apply(zoo.load("tiny-6"), "tome", r=[36, 28, 20, 15, 11, 0])
    reduced = run(model, data[:2])
    held = Held(model, data[:2])
    catis.apply(model, "pitome", r=4)
    held.end()
    assert torch.equal(held.results[0], reduced)
    catis.calibrate(catis.apply(model, "tome", r=[36, 28, 20, 15, 11, 0]), data)
    assert hosts.find(model).correction is not None
    fitted = run(model, data[:2])
    held = Held(model, data[:2])
    held.end()
    assert torch.equal(held.results[0], fitted)
