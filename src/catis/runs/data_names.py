"""How a data set is written in one word: NAME=DIR, NAME@CORRUPTION:SEVERITY=DIR, zoo-VIEW."""

from __future__ import annotations

from itertools import product
from pathlib import Path

from catis.data.corruptions import CORRUPTIONS
from catis.runs.spec import CORRUPTED, DataSpec
from catis.zoo.streams import VIEWS

SEVERITIES = (1, 2, 3, 4, 5)
ZOO = tuple(f"zoo-{view}" for view in VIEWS)
SHIFTED = ("imagenet-a", "imagenet-r", "imagenet-sketch")
"""Whose mean is the paper's `Shift avg`."""


def parse_data(text: str, *, limit: int | None = None, seed: int = 0, class_map: str | None = None) -> list[DataSpec]:
    """The data sets that one argument names, in order; a corruption or severity left out stands for all of them.

    Args:
        text: `imagenet=DIR`; `imagenet@fog:3=DIR`, made from the clean images, as are `imagenet@fog=DIR` (five
            severities) and `imagenet@all=DIR` (75 sets); `imagenet-c=DIR` for the published folders; `zoo-clean`.
        class_map: File with the order of the classes.

    Raises:
        ValueError: It is spelled otherwise; the message says how it should be.

    Example:
        >>> [spec.title for spec in parse_data("zoo-clean@fog")][:2]
        ['zoo-clean@fog:1', 'zoo-clean@fog:2']
        >>> len(parse_data("zoo-clean@all")), parse_data("imagenet=/data/val")[0].root
        (75, '/data/val')
    """
    said, given, root = text.partition("=")
    name, marked, damage = said.partition("@")
    _check_name(text, name, root if given else None)
    if not marked and name != CORRUPTED:
        return [DataSpec(name, root or None, limit, seed=seed, class_map=class_map)]
    cells = list(product(*_cells(text, damage if marked else "all")))
    if name == CORRUPTED:
        cells = _published(Path(root), cells, marked=bool(marked))
    return [
        DataSpec(name, root or None, limit, corruption, severity, seed, class_map) for corruption, severity in cells
    ]


def _check_name(text: str, name: str, root: str | None) -> None:
    if name.startswith("zoo-"):
        if name not in ZOO or root is not None:
            raise ValueError(f"--data {text}: expected one of {', '.join(ZOO)}, without a folder")
    elif not name or not root:
        raise ValueError(
            f"--data {text}: expected NAME=DIR (such as imagenet=/data/val), NAME@CORRUPTION:SEVERITY=DIR, "
            f"or one of {', '.join(ZOO)}"
        )


def _cells(text: str, damage: str) -> tuple[tuple[str, ...], tuple[int, ...]]:
    corruption, _, severity = damage.partition(":")
    if corruption != "all" and corruption not in CORRUPTIONS:
        raise ValueError(f"--data {text}: corruption {corruption!r}: expected all or one of {', '.join(CORRUPTIONS)}")
    if severity and severity not in map(str, SEVERITIES):
        raise ValueError(f"--data {text}: severity {severity!r}: expected 1 to 5, or none for all five")
    return CORRUPTIONS if corruption == "all" else (corruption,), (int(severity),) if severity else SEVERITIES


def _published(root: Path, cells: list[tuple[str, int]], *, marked: bool) -> list[tuple[str, int]]:
    """Cells of ImageNet-C whose folders are there; those that were asked for by name must be."""
    there = [cell for cell in cells if (root / cell[0] / str(cell[1])).is_dir()]
    if not there or (marked and there != cells):
        missing = next(cell for cell in cells if cell not in there)
        raise ValueError(
            f"{root / missing[0] / str(missing[1])} is not there: imagenet-c is DIR/CORRUPTION/SEVERITY/CLASS/*; "
            f"to make corrupted images from clean ones, write imagenet@all={root}"
        )
    return there
