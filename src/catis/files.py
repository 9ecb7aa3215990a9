"""Files that are whole or not there, whatever kills the process that writes them."""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

PARTIAL = ".partial"
"""Ending of a file that is being written; one that stays behind belongs to a process that died."""


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A temporary file beside `path` that takes its place, flushed to the disk, once the with-block has ended well.

    Example:
        >>> import pathlib, tempfile
        >>> path = pathlib.Path(tempfile.mkdtemp()) / "file"
        >>> with replacing(path) as partial:
        ...     _ = partial.write_text("whole")
        >>> path.read_text()
        'whole'
    """
    partial = begin(path)
    try:
        yield partial
        commit(partial, path)
    finally:
        partial.unlink(missing_ok=True)  # gone to its place, unless something went wrong


def check_folder(path: Path) -> None:
    """Refuse a folder that could not be made or written into, before time is spent; missing parents will be made.

    Example:
        >>> check_folder(Path("nowhere/yet"))
        >>> check_folder(Path(__file__))  # doctest: +ELLIPSIS
        Traceback (most recent call last):
        ...
        ValueError: ... cannot be written into: ...files.py is no folder
    """
    there = next(folder for folder in (path.absolute(), *path.absolute().parents) if folder.exists())
    if not there.is_dir():
        raise ValueError(f"{path} cannot be written into: {there} is no folder")
    if not os.access(there, os.W_OK):
        raise ValueError(f"{path} cannot be written into: you may not write to {there}")


def check_writable(path: Path, *endings: str) -> None:
    """Refuse a file that could not be written, before time is spent.

    Example:
        >>> check_writable(Path("nowhere/results.csv"))
        Traceback (most recent call last):
        ...
        ValueError: nowhere/results.csv cannot be written: there is no folder nowhere
    """
    folder = path.parent
    if endings and path.suffix.lower() not in endings:
        raise ValueError(f"{path}: expected a name that ends in {' or '.join(endings)}")
    if path.is_dir():
        raise ValueError(f"{path} cannot be written: it is a folder")
    if not folder.is_dir():
        raise ValueError(f"{path} cannot be written: there is no folder {folder}")
    if not os.access(folder, os.W_OK):
        raise ValueError(f"{path} cannot be written: you may not write to {folder.resolve()}")


def begin(path: Path) -> Path:
    """An empty temporary file beside `path`, under a name that nobody else uses."""
    partial = path.with_name(f".{path.name[:80]}.{secrets.token_hex(8)}{PARTIAL}")
    os.close(os.open(partial, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))  # not mkstemp: others share the store
    return partial


def commit(partial: Path, path: Path) -> None:
    """Flush a temporary file to the disk and put it in the place of `path`, at once."""
    _flush(partial)
    os.replace(partial, path)
    _flush(path.parent)


def write_whole(path: Path, content: bytes) -> None:
    """Write a file so that readers see all of it or none."""
    with replacing(path) as partial:
        partial.write_bytes(content)


def remove_leftovers(folder: Path, older_than: float = 86400.0) -> list[str]:
    """Delete what dead processes left half-written, if it has not been touched for so many seconds."""
    removed = []
    for path in folder.glob(f".*{PARTIAL}"):
        try:
            if time.time() - path.stat().st_mtime > older_than:
                path.unlink()
                removed.append(path.name)
        except FileNotFoundError:  # another process cleans up too, or has just finished it
            continue
    return removed


def _flush(path: Path) -> None:
    """Ask the system to put a file, or the names in a folder, on the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
