"""Every golden test runs in both precisions, and in single precision by PyTorch and by the compiled functions."""

import pytest
import torch

from catis.native import accelerator

from . import files


@pytest.fixture(params=["float64", "float32", "compiled"])
def dtype(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> torch.dtype:
    compiled = accelerator.accelerator_for(torch.zeros(1))
    if request.param == "compiled":
        if compiled is None:
            pytest.skip("catis was installed without a C compiler")
        monkeypatch.setattr(files, "COMPILED", compiled)
    else:
        monkeypatch.setattr(accelerator, "load", lambda: None)
        accelerator._compiled.cache_clear()
    yield torch.float64 if request.param == "float64" else torch.float32
    accelerator._compiled.cache_clear()
