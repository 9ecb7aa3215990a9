"""Which clips a data set has, and of which class each is: its name, the lists of UCF-101, or the folders themselves."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from catis.data.images import NoImagesError
from catis.data.video_sampling import ClipSampling

EXTENSIONS = frozenset(
    {".avi", ".mp4", ".m4v", ".mov", ".mkv", ".webm", ".mpg", ".mpeg", ".ts", ".flv", ".wmv", ".ogv", ".gif"}
)
CLASSES = "classInd.txt"
_NAME = re.compile(r"(ucf101(?:-split([123]))?|clips)(?:-([1-9]\d*)x([1-9]\d*))?")


@dataclass(frozen=True)
class ClipList:
    """Clips by name, in order."""

    root: Path  # the folder that names are relative to
    names: tuple[str, ...]  # class folder and file, with a slash
    labels: tuple[int, ...]  # index of each one's class
    classes: tuple[str, ...]  # names of the classes


def ucf101_clips(root: str | Path, split: int = 1, part: str = "test", lists: str | Path | None = None) -> ClipList:
    """One of the official splits.

    Class indices are those of classInd.txt less one; without that file, the sorted order of the class folders.

    Args:
        root: Folder of class folders, or one that holds such a folder named UCF-101.
        split: 1, 2 or 3.
        part: "test" or "train".
        lists: Folder of the lists. By default they are looked for in the root, in the folders in it, and in a folder
            ucfTrainTestlist beside it.

    Raises:
        NoImagesError: There is no such list, or not one clip of it in the folder.
        ValueError: A list that is not in the form of UCF-101's.

    Example:
        >>> import tempfile
        >>> ucf101_clips(tempfile.mkdtemp())
        Traceback (most recent call last):
        ...
        catis.data.images.NoImagesError: no testlist01.txt in ...
    """
    base = _folder(root)
    file = _find_list(base, f"{part}list{split:02d}.txt", lists)
    clips = base / "UCF-101" if (base / "UCF-101").is_dir() else base
    classes = _read_classes(file.with_name(CLASSES)) or _class_folders(clips)
    names, labels = [], []
    for number, line in enumerate(file.read_text().splitlines(), 1):
        if line.strip():
            name, label = _parse(line, classes, f"{file}, line {number}")
            names.append(name)
            labels.append(label)
    if not any((clips / name).exists() for name in names):
        raise NoImagesError(f"none of the {len(names)} clips of {file} is in {clips}: pass the folder of class folders")
    return ClipList(clips, tuple(names), tuple(labels), tuple(classes))


def folder_clips(root: str | Path) -> ClipList:
    """All clips in the class folders of a folder; classes are numbered in sorted order.

    Example:
        >>> import tempfile
        >>> folder_clips(tempfile.mkdtemp())
        Traceback (most recent call last):
        ...
        catis.data.images.NoImagesError: no clips in ...
    """
    base = _folder(root)
    classes = _class_folders(base)
    clips = [(f"{label}/{path.name}", i) for i, label in enumerate(classes) for path in _clips(base / label)]
    if not clips:
        endings = ", ".join(sorted(EXTENSIONS))
        raise NoImagesError(f"no clips in {base}: expected class folders with files ending in {endings}")
    return ClipList(base, tuple(name for name, _ in clips), tuple(label for _, label in clips), tuple(classes))


@dataclass(frozen=True)
class ClipData:
    """A data set of clips: `ucf101` (the first test list), `ucf101-split2`, or `clips` for any folder of class folders.

    Either may end in the number of segments and crops, as in `ucf101-5x3`.

    Example:
        >>> ClipData.parse("ucf101-split2-5x3")
        ClipData(split=2, segments=5, crops=3)
        >>> ClipData.parse("imagenet") is None
        True
    """

    split: int | None = 1  # of UCF-101; None for a plain folder
    segments: int = 1  # stretches of each clip
    crops: int = 1  # crops of each stretch

    @classmethod
    def parse(cls, name: str) -> ClipData | None:
        """What a name means; None if it does not mean clips."""
        match = _NAME.fullmatch(name)
        if match is None:
            return None
        kind, split, segments, crops = match.groups()
        return cls(None if kind == "clips" else int(split or 1), int(segments or 1), int(crops or 1))

    def clips(self, root: str | Path) -> ClipList:
        """The clips below a folder."""
        return folder_clips(root) if self.split is None else ucf101_clips(root, self.split)

    def sampling(self, frames: int) -> ClipSampling:
        """The views, for a model that takes so many frames."""
        return ClipSampling(frames, segments=self.segments, crops=self.crops)


def _folder(root: str | Path) -> Path:
    base = Path(root)
    if not base.is_dir():
        raise NoImagesError(f"no clips in {base}: it is {'a file' if base.exists() else 'not there'}; pass a folder")
    return base


def _find_list(base: Path, name: str, lists: str | Path | None) -> Path:
    beside = base.resolve().parent / "ucfTrainTestlist"
    places = [Path(lists)] if lists is not None else [base, *sorted(p for p in base.iterdir() if p.is_dir()), beside]
    for place in places:
        if (place / name).is_file():
            return place / name
    where = str(lists) if lists is not None else f"{base}, in a folder in it, or in {beside}"
    raise NoImagesError(f"no {name} in {where}: unpack the official split lists of UCF-101 there")


def _read_classes(file: Path) -> list[str]:
    if not file.is_file():
        return []
    pairs = [line.split() for line in file.read_text().splitlines() if line.strip()]
    if not pairs or any(len(pair) != 2 or pair[0] != str(place) for place, pair in enumerate(pairs, 1)):
        raise ValueError(f"{file}: expected one class per line, numbered from 1, such as '1 ApplyEyeMakeup'")
    return [name for _, name in pairs]


def _class_folders(base: Path) -> list[str]:
    return sorted(path.name for path in base.iterdir() if path.is_dir() and _clips(path))


def _clips(folder: Path) -> list[Path]:
    # A dangling link is a clip that cannot be read, not no clip.
    return sorted(
        path for path in folder.iterdir() if path.suffix.lower() in EXTENSIONS and (path.is_file() or path.is_symlink())
    )


def _parse(line: str, classes: list[str], where: str) -> tuple[str, int]:
    """A line "Class/clip.avi", with the class's number after it in training lists."""
    name, *number = line.split()
    label = name.split("/")[0]
    if label not in classes or "/" not in name or len(number) > 1:
        raise ValueError(f"{where}: expected 'Class/clip.avi' with one of {len(classes)} classes, got {line!r}")
    if number and number[0] != str(classes.index(label) + 1):
        raise ValueError(f"{where}: {label} is class {classes.index(label) + 1} of {CLASSES}, got {line!r}")
    return name, classes.index(label)
