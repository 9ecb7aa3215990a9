"""Class folders and the model's classes."""

from importlib.resources import files

import pytest

from catis.evaluate.classes import map_classes
from tests.evaluate.folders import IDS


def test_wordnet_ids_are_found_by_id_whatever_the_subset_and_the_name():
    for data in ("imagenet", "imagenet-sketch", "imagenet-c", "my-photos"):
        found = map_classes(data, IDS, 1000)
        assert [found.index[name] for name in IDS] == [1, 2, 207]
        assert found.scored is None
    assert map_classes("imagenet", IDS, 21843).index[IDS[0]] not in (0, 1)  # the 21k classifiers have another order


@pytest.mark.parametrize("letter", ["a", "r"])
def test_a_and_r_are_scored_over_timms_200_classes(letter):
    folder = files("timm.data") / "_info"
    ids = (folder / f"imagenet_{letter}_synsets.txt").read_text().split()
    indices = [int(line) for line in (folder / f"imagenet_{letter}_indices.txt").read_text().split()]
    found = map_classes(f"imagenet-{letter}", ids[:7], 1000)
    assert list(found.scored) == sorted(indices)
    assert found.index == dict(zip(ids[:7], indices[:7], strict=True))


def test_other_folders_are_classes_in_order():
    assert map_classes("pets", ["cat", "dog", "eel"], 3).index == {"cat": 0, "dog": 1, "eel": 2}


BAD = [
    (("pets", ["cat", "dog"], 3), r"2 class folders \(cat, dog\), the model 3 classes.*--class-map"),
    (("imagenet", ["cat", *IDS], 1000), r"1 folders that are none of its classes \(cat\): expected WordNet ids"),
    (("imagenet", ["n00000001"], 1000), "n00000001"),
    (("imagenet-a", ["n01440764"], 1000), "none of its classes"),
    (("imagenet", list(IDS), 24), "the model has 24, which is no ImageNet classifier"),
]


@pytest.mark.parametrize(("arguments", "message"), BAD)
def test_what_does_not_match_is_named(arguments, message):
    with pytest.raises(ValueError, match=message):
        map_classes(*arguments)


def test_a_class_map_decides(tmp_path):
    file = tmp_path / "classes.txt"
    file.write_text("eel\ncat\n\ndog\n")
    assert map_classes("pets", ["cat", "dog"], 10, file).index == {"cat": 1, "dog": 3}
    with pytest.raises(ValueError, match="no line for 1 class folders: emu"):
        map_classes("pets", ["emu"], 10, file)
    with pytest.raises(ValueError, match="4 lines, the model 2 classes"):
        map_classes("pets", ["cat"], 2, file)
    with pytest.raises(ValueError, match="can run code"):
        map_classes("pets", ["cat"], 2, tmp_path / "classes.pkl")
