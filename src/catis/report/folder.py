"""A folder of files that belong together: complete or not at all, and never over somebody else's files."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from pathlib import Path


def marker(kind: str) -> str:
    """Name of the file that lists what a command wrote; only a folder with that, and nothing added, is replaced."""
    return f".catis-{kind}"


def check_folder(out: Path, kind: str) -> Path:
    """Refuse, before any work is done, a folder that could not be written. Returns its absolute path."""
    target = Path(os.path.realpath(out))
    if target.exists() and not target.is_dir():
        raise ValueError(f"{out}: it is a file; expected a folder, or a name for a new one")
    if not target.parent.is_dir():
        raise ValueError(f"{out}: there is no folder {target.parent}; make it first")
    if target == Path.cwd():
        raise ValueError(f"{out}: this is the folder you are in; name one below it, such as -o catis-{kind}")
    if target.is_dir():
        _refuse_foreign(out, target, kind)
    _try_to_write(out, target)
    return target


def _refuse_foreign(out: Path, target: Path, kind: str) -> None:
    entries = _entries(out, target)
    if not entries:
        return
    ours = (target / marker(kind)).read_text().split() if marker(kind) in entries else []
    foreign = sorted(entries - {marker(kind), *ours})
    if foreign or marker(kind) not in entries:
        raise ValueError(
            f"{out}: the folder holds {foreign[0]}, which the {kind} did not write; name another, or empty it"
        )


def _entries(out: Path, target: Path) -> set[str]:
    try:
        return {entry.name for entry in target.iterdir()}
    except OSError as error:
        raise ValueError(f"{out}: cannot read the folder: {error.strerror}") from error


def _try_to_write(out: Path, target: Path) -> None:
    part = _beside(target, "part")
    try:
        part.mkdir()
        part.rmdir()
    except OSError as error:
        raise ValueError(f"{out}: cannot write into {target.parent}: {error.strerror}") from error


def _beside(target: Path, kind: str) -> Path:
    return target.with_name(f".{target.name}.{os.getpid()}.{kind}")


def write_folder(target: Path, files: Mapping[str, bytes], kind: str) -> None:
    """Write a folder whole or not at all; an older one stays until the new one is complete.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     write_folder(Path(folder) / "demo", {"a.txt": b"text"}, "demo")
        ...     (Path(folder) / "demo" / "a.txt").read_text()
        'text'
    """
    part, old = _beside(target, "part"), _beside(target, "old")
    try:
        part.mkdir()
        for name, content in files.items():
            (part / name).write_bytes(content)
        (part / marker(kind)).write_text("\n".join(files) + "\n")
        _swap(part, target, old)
    except OSError as error:
        raise OSError(f"cannot write {target}: {error.strerror}; nothing was left behind") from error
    finally:
        shutil.rmtree(part, ignore_errors=True)


def _swap(part: Path, target: Path, old: Path) -> None:
    if target.exists():
        target.rename(old)
    try:
        part.rename(target)
    finally:  # also after Ctrl-C: either the new folder is in place, or the old one comes back
        if old.exists() and not target.exists():
            old.rename(target)
    shutil.rmtree(old, ignore_errors=True)
