"""Dynamic int8 of the linear layers goes on a reduced model, and the reduction still works on top of it."""

from __future__ import annotations

import pytest
import torch

import catis
from tests.export.test_export import tiny
from tests.hosts.hf_models import SMALL

quantization = pytest.importorskip("torchao.quantization")


@pytest.mark.parametrize("host", ["timm", "transformers"])
@pytest.mark.parametrize("method", ["tome", "catis"])
@torch.no_grad()
def test_int8_linear_layers_of_a_reduced_model(host: str, method: str) -> None:
    model = catis.apply(tiny(host), method, r=[2, 0, 0, 0])
    images = torch.randn(2, 3, SMALL["image_size"], SMALL["image_size"])

    def logits() -> torch.Tensor:
        found = model(images)
        return found if isinstance(found, torch.Tensor) else found.logits

    exact = logits()
    quantization.quantize_(model, quantization.Int8DynamicActivationInt8WeightConfig())
    rough = logits()
    assert not torch.equal(exact, rough)
    assert (rough - exact).norm() < 0.2 * exact.norm()
    trace = catis.trace(model, images)
    assert [block.tokens_left for block in trace] == [14, 14, 14, 14]
    assert catis.gmacs(model) == pytest.approx(catis.gmacs(tiny(host), r=[2, 0, 0, 0]))
