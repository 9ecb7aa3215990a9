"""Whether an export fits on the disk: asked before it is made, and said plainly where a writer fails all the same."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from torch import nn

_COPIES = 3
"""Files as large as the weights that are there at once at most: float, as it is written, and as it was before."""


def check_room(model: nn.Module, folder: Path) -> None:
    """Refuse a folder whose disk has no room for the files of a model.

    Raises:
        OSError: The message says what is needed and what is there.
    """
    needed = _COPIES * sum(value.nbytes for value in model.state_dict().values())
    free = shutil.disk_usage(folder).free
    if free < needed:
        raise OSError(
            f"{folder.resolve()} has {free / 1e6:.1f} MB left, and the export needs about {needed / 1e6:.1f} MB while "
            "it is made: free some, or write to another disk"
        )


@contextmanager
def saving(what: str, folder: Path) -> Iterator[None]:
    """Turn what a library says when it cannot write, often with no word on the disk, into an OSError that says it.

    Example:
        >>> with saving("the model", Path(".")):
        ...     raise RuntimeError("cannot open file")
        Traceback (most recent call last):
        ...
        OSError: the model could not be written (... MB are left on its disk): cannot open file
    """
    try:
        yield
    except RuntimeError as error:
        free, said = shutil.disk_usage(folder).free / 1e6, " ".join(str(error).split())[:300]
        raise OSError(f"{what} could not be written ({free:.1f} MB are left on its disk): {said}") from error
