"""How data sets are written in one word."""

import pytest

from catis.data.corruptions import CORRUPTIONS
from catis.runs.data_names import parse_data


def titles(text, **settings):
    return [spec.title for spec in parse_data(text, **settings)]


def test_plain_corrupted_and_embedded_sets():
    (plain,) = parse_data("imagenet=/data/a=b", limit=7, seed=3)
    assert (plain.name, plain.root, plain.limit, plain.corruption) == ("imagenet", "/data/a=b", 7, None)
    assert titles("x@fog:3=/d") == ["x@fog:3"]
    assert titles("x@fog=/d") == [f"x@fog:{level}" for level in (1, 2, 3, 4, 5)]
    assert titles("x@all:2=/d") == [f"x@{name}:2" for name in CORRUPTIONS]
    assert len(set(titles("zoo-clean@all"))) == 75
    assert parse_data("zoo-sketch")[0].root is None


def test_published_corruptions_are_those_whose_folders_are_there(tmp_path):
    for cell in ("fog/1", "fog/3", "snow/1", "other/1"):
        (tmp_path / cell).mkdir(parents=True)
    assert titles(f"imagenet-c={tmp_path}") == ["imagenet-c@snow:1", "imagenet-c@fog:1", "imagenet-c@fog:3"]
    assert titles(f"imagenet-c@fog:3={tmp_path}") == ["imagenet-c@fog:3"]
    with pytest.raises(ValueError, match=r"fog/2 is not there.*imagenet@all="):
        titles(f"imagenet-c@fog={tmp_path}")
    with pytest.raises(ValueError, match="to make corrupted images from clean ones"):
        titles(f"imagenet-c={tmp_path / 'other'}")


BAD = [
    ("imagenet", "expected NAME=DIR"),
    ("=dir", "expected NAME=DIR"),
    ("imagenet=", "expected NAME=DIR"),
    ("zoo-clear", "expected one of zoo-clean"),
    ("zoo-clean=/d", "without a folder"),
    ("x@fogg:3=/d", "corruption 'fogg': expected all or one of gaussian_noise"),
    ("x@fog:6=/d", "severity '6': expected 1 to 5"),
]


@pytest.mark.parametrize(("text", "message"), BAD)
def test_other_spellings_are_explained(text, message):
    with pytest.raises(ValueError, match=message):
        parse_data(text)
