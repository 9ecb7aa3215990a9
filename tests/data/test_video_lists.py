"""The lists of UCF-101: where they are found, what they say, and what is refused."""

import pytest

from catis.data.images import NoImagesError
from catis.data.video_lists import folder_clips, ucf101_clips

CLASSES = ["Apply", "hammering", "HammerThrow"]  # not in sorted order


@pytest.fixture
def root(tmp_path):
    root = tmp_path / "UCF"
    for name in CLASSES:
        (root / name).mkdir(parents=True)
        for i in range(2):
            (root / name / f"v_{name}_g0{i}.avi").touch()
    return root


def write_lists(folder, classes=CLASSES):
    folder.mkdir(exist_ok=True)
    (folder / "classInd.txt").write_text("".join(f"{i} {name}\r\n" for i, name in enumerate(classes, 1)))
    (folder / "testlist01.txt").write_text("".join(f"{name}/v_{name}_g00.avi\r\n" for name in CLASSES) + "\r\n")
    lines = [f"{name}/v_{name}_g01.avi {classes.index(name) + 1}\r\n" for name in CLASSES]
    (folder / "trainlist02.txt").write_text("".join(lines))


@pytest.mark.parametrize("place", [".", "ucfTrainTestlist", "lists", "../ucfTrainTestlist"])
def test_lists_are_found(root, place):
    write_lists(root / place)
    found = ucf101_clips(root)
    assert found.names == (
        "Apply/v_Apply_g00.avi",
        "hammering/v_hammering_g00.avi",
        "HammerThrow/v_HammerThrow_g00.avi",
    )
    assert found.labels == (0, 1, 2)
    assert found.classes == tuple(CLASSES)
    train = ucf101_clips(root, split=2, part="train")
    assert [name[-7:-4] for name in train.names] == ["g01"] * 3
    assert train.labels == (0, 1, 2)


def test_lists_that_are_given_win(root, tmp_path):
    write_lists(root)
    write_lists(tmp_path / "mine", CLASSES[::-1])
    assert ucf101_clips(root, lists=tmp_path / "mine").labels == (2, 1, 0)


def test_clips_in_a_folder_named_as_the_archive_names_it(root):
    root.rename(root.parent / "UCF-101")
    write_lists(root.parent)
    assert ucf101_clips(root.parent).root == root.parent / "UCF-101"


def test_without_classind_the_folders_are_sorted(root):
    write_lists(root)
    (root / "classInd.txt").unlink()
    found = ucf101_clips(root)
    assert found.classes == ("Apply", "HammerThrow", "hammering")
    assert found.labels == (0, 2, 1)


def test_a_plain_folder(root):
    (root / "notes").mkdir()
    (root / "notes" / "read.me").touch()
    found = folder_clips(root)
    assert found.classes == ("Apply", "HammerThrow", "hammering")
    assert found.labels == (0, 0, 1, 1, 2, 2)
    assert found.names[:2] == ("Apply/v_Apply_g00.avi", "Apply/v_Apply_g01.avi")


def test_no_lists_is_an_error_and_not_the_whole_folder(root):
    with pytest.raises(NoImagesError, match=r"no testlist01\.txt in .*ucfTrainTestlist"):
        ucf101_clips(root)
    write_lists(root)
    with pytest.raises(NoImagesError, match=r"no testlist03\.txt"):
        ucf101_clips(root, split=3)


def test_a_list_of_another_folder(root, tmp_path):
    write_lists(root)
    (tmp_path / "other").mkdir()
    with pytest.raises(NoImagesError, match="none of the 3 clips"):
        ucf101_clips(tmp_path / "other", lists=root)
    with pytest.raises(NoImagesError, match="not there"):
        ucf101_clips(tmp_path / "absent")


@pytest.mark.parametrize(
    ("file", "text", "message"),
    [
        ("testlist01.txt", "Apply/a.avi\nJump/a.avi\n", "line 2: expected 'Class/clip.avi' with one of 3 classes"),
        ("testlist01.txt", "Apply\n", "line 1: expected"),
        ("testlist01.txt", "Apply/a b.avi 1\n", "line 1: expected"),
        ("testlist01.txt", "HammerThrow/a.avi 2\n", "HammerThrow is class 3"),
        ("classInd.txt", "0 Apply\n1 hammering\n", "numbered from 1"),
        ("classInd.txt", "Apply\n", "numbered from 1"),
        ("classInd.txt", "", "numbered from 1"),
    ],
)
def test_lists_in_another_form_are_refused(root, file, text, message):
    write_lists(root)
    (root / file).write_text(text)
    with pytest.raises(ValueError, match=message):
        ucf101_clips(root)
