"""A small plan on embedded models and images."""

import pytest

PLAN = """
r = [4, 8]
methods = ["tome", "catis"]

[run]
threads = 1
batch_size = 16

[models.small]
name = "tiny-6"

[[data]]
name = "zoo-clean"
limit = 24

[[data]]
name = "zoo-clean"
limit = 24
corruption = "contrast"
severity = 2
"""


@pytest.fixture
def plan(tmp_path, monkeypatch):
    monkeypatch.setenv("CATIS_CACHE", str(tmp_path / "cache"))
    path = tmp_path / "plan.toml"
    path.write_text(PLAN)
    return path
