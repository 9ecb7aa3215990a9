"""Every golden test runs in both precisions, and in single precision by arrays and by the compiled functions."""

import pytest
import torch

from catis.native import library


@pytest.fixture(params=["float64", "float32", "compiled"])
def dtype(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> torch.dtype:
    if request.param != "compiled":
        monkeypatch.setattr(library, "_load", lambda: None)
    return torch.float64 if request.param == "float64" else torch.float32
