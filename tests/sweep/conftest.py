"""A small plan on embedded models and images."""

import pytest

from catis.evaluate.cache import ImageCache

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


@pytest.fixture(scope="session")
def cache(tmp_path_factory):
    """Prepared images, made once for all tests."""
    return ImageCache(tmp_path_factory.mktemp("cache"))


@pytest.fixture
def plan(tmp_path, cache, monkeypatch):
    monkeypatch.setenv("CATIS_CACHE", str(cache.folder))
    path = tmp_path / "plan.toml"
    path.write_text(PLAN)
    return path
