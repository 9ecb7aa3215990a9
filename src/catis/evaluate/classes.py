"""Which class of the model a class folder is, and which classes are scored."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from catis.hosts.imagenet import own_synsets, synsets

WORDNET_ID = re.compile(r"n\d{8}")
IMAGENET = ("imagenet", "imagenet-a", "imagenet-r", "imagenet-sketch", "imagenet-c")


@dataclass(frozen=True)
class ClassMap:
    """The model's class for each class folder, and the classes that may be predicted, ascending; None for all."""

    index: Mapping[str, int]
    scored: tuple[int, ...] | None = None


def map_classes(
    data: str,
    folders: Sequence[str],
    num_classes: int,
    class_map: str | Path | None = None,
    class_names: Sequence[str] = (),
) -> ClassMap:
    """Match the class folders of a data set with the classes of a model.

    `class_map` is a text file with one folder name per line, in the order of the model's classes.

    A class map decides if there is one; else the names that the model has for its classes, if they are those of the
    folders, upper case, spaces and the like apart. Folders named by WordNet ids are found by id, so any subset will do;
    ImageNet-A and -R are scored over their own 200 classes. Other folders are the classes in their order, so all of
    them must be there.

    Example:
        >>> map_classes("pets", ["cat", "dog"], 2).index["dog"]
        1
        >>> map_classes("imagenet", ["n01443537"], 1000).index["n01443537"]
        1
        >>> len(map_classes("imagenet-a", ["n01498041"], 1000).scored)
        200
        >>> map_classes("clips", ["HighJump", "Archery"], 3, class_names=["archery", "biking", "high jump"]).index
        {'HighJump': 2, 'Archery': 0}
    """
    if class_map is not None:
        return ClassMap(_read_map(Path(class_map), folders, num_classes))
    named = _by_name(data, folders, class_names)
    if named:
        return ClassMap(named)
    if data in IMAGENET or all(WORDNET_ID.fullmatch(name) for name in folders):
        return _by_wordnet_id(data, folders, num_classes)
    if len(folders) != num_classes:
        raise ValueError(
            f"{data} has {len(folders)} class folders ({_few(folders)}), the model {num_classes} classes: folders are "
            f"classes in sorted order, so their numbers must be equal; otherwise pass --class-map FILE"
        )
    return ClassMap({name: index for index, name in enumerate(folders)})


def _by_wordnet_id(data: str, folders: Sequence[str], num_classes: int) -> ClassMap:
    ids = synsets(num_classes)
    if not ids:
        raise ValueError(
            f"{data} has ImageNet's classes, the model has {num_classes}, which is no ImageNet classifier that timm "
            f"knows (1000, 11221, 11821, 21841, 21842, 21843); pass --class-map FILE"
        )
    index = {name: place for place, name in enumerate(ids)}
    own = own_synsets(data)
    strangers = sorted(set(folders) - set(index if own is None else own))
    if strangers:
        raise ValueError(
            f"{data} has {len(strangers)} folders that are none of its classes ({_few(strangers)}): expected WordNet "
            f"ids such as {(own or ids)[0]}"
        )
    scored = None if own is None else tuple(sorted(index[name] for name in own))
    return ClassMap({name: index[name] for name in folders}, scored)


def _by_name(data: str, folders: Sequence[str], class_names: Sequence[str]) -> dict[str, int]:
    """Classes by their names, all of them or none: some only would mean that the order is not to be trusted either."""
    places = {_letters(name): place for place, name in enumerate(class_names)}
    known = {folder: places[_letters(folder)] for folder in folders if _letters(folder) in places}
    if known and len(known) < len(folders):
        strangers = [folder for folder in folders if folder not in known]
        raise ValueError(
            f"{data} has {len(strangers)} classes that the model does not know by name ({_few(strangers)}), and "
            f"{len(known)} that it does; pass --class-map FILE"
        )
    return known


def _letters(name: str) -> str:
    return re.sub(r"[\W_]", "", name).lower()


def _read_map(path: Path, folders: Sequence[str], num_classes: int) -> dict[str, int]:
    if path.suffix == ".pkl":
        raise ValueError(f"class map {path}: pickled maps can run code; write a text file, one folder name per line")
    lines = [line.strip() for line in path.read_text(encoding="utf-8").splitlines()]
    index = {name: place for place, name in enumerate(lines) if name}
    missing = sorted(set(folders) - set(index))
    if missing:
        raise ValueError(f"class map {path} has no line for {len(missing)} class folders: {_few(missing)}")
    if len(lines) > num_classes:
        raise ValueError(f"class map {path} has {len(lines)} lines, the model {num_classes} classes")
    return {name: index[name] for name in folders}


def _few(names: Sequence[str]) -> str:
    shown = ", ".join(sorted(names)[:3])
    return f"{shown}, ..." if len(names) > 3 else shown
