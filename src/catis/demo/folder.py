"""The folder that the demo leaves: complete or not at all, and never over somebody else's files."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from pathlib import Path

__all__ = ["MARKER", "check_target", "write_folder"]

MARKER = ".catis-demo"
"""Lists the files of a folder that the demo wrote; only such a folder, with nothing added, is replaced."""


def check_target(out: Path) -> Path:
    """Refuse, before any work is done, a folder that could not be written. Returns its absolute path.

    Raises:
        ValueError: It is a file, somebody else's folder, has no parent, or cannot be written.
    """
    target = Path(os.path.realpath(out))
    if target.exists() and not target.is_dir():
        raise ValueError(f"--out {out}: it is a file; expected a folder, or a name for a new one")
    if not target.parent.is_dir():
        raise ValueError(f"--out {out}: there is no folder {target.parent}; make it first")
    if target == Path.cwd():
        raise ValueError(f"--out {out}: this is the folder you are in; name one below it, such as --out catis-demo")
    if target.is_dir():
        _refuse_foreign(out, target)
    _try_to_write(out, target)
    return target


def _refuse_foreign(out: Path, target: Path) -> None:
    found = _entries(out, target)
    if not found:
        return
    ours = (target / MARKER).read_text().split() if MARKER in found else []
    foreign = sorted(found - {MARKER, *ours})
    if foreign or MARKER not in found:
        raise ValueError(
            f"--out {out}: the folder holds {foreign[0]}, which the demo did not write; name another, or empty it"
        )


def _entries(out: Path, target: Path) -> set[str]:
    try:
        return {entry.name for entry in target.iterdir()}
    except OSError as error:
        raise ValueError(f"--out {out}: cannot read the folder: {error.strerror}") from error


def _try_to_write(out: Path, target: Path) -> None:
    part = _beside(target, "part")
    try:
        part.mkdir()
        part.rmdir()
    except OSError as error:
        raise ValueError(f"--out {out}: cannot write into {target.parent}: {error.strerror}") from error


def _beside(target: Path, kind: str) -> Path:
    return target.with_name(f".{target.name}.{os.getpid()}.{kind}")


def write_folder(target: Path, files: Mapping[str, bytes]) -> None:
    """Write a folder whole or not at all; an older one stays until the new one is complete.

    Args:
        target: What `check_target` returned.
        files: Name and content.

    Raises:
        OSError: The disk is full, or the like; nothing is left behind.

    Example:
        >>> import tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     write_folder(Path(folder) / "demo", {"a.txt": b"text"})
        ...     (Path(folder) / "demo" / "a.txt").read_text()
        'text'
    """
    part, old = _beside(target, "part"), _beside(target, "old")
    try:
        part.mkdir()
        for name, content in files.items():
            (part / name).write_bytes(content)
        (part / MARKER).write_text("\n".join(files) + "\n")
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
