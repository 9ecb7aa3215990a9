"""One small run of the demo's computation, shared by the tests."""

import pytest

from catis.demo.findings import Findings, run
from catis.demo.settings import Settings

TINY = Settings(
    "tiny", clean=10, shifted=6, probed=4, compared=("tiny-6", "tiny-12"), models=("tiny-6", "tiny-12"),
    methods=("tome", "catis"), steps=2, batch=5,
)  # fmt: skip


@pytest.fixture(scope="session")
def measured() -> Findings:
    return run(TINY)
