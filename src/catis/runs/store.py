"""A folder of records, one file per run, that any number of processes and hosts may write to at once."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from catis.errors import require
from catis.files import remove_leftovers, write_whole
from catis.runs.predictions import Predictions, from_parquet, to_parquet
from catis.runs.record import DamagedRecordError, Record


class Damaged(NamedTuple):
    """A file of the store that cannot be used, and why."""

    path: Path
    reason: str


class Store:
    """Records NAME.json with predictions beside them, in a folder that is made if it is not there.

    A run is in the store from the moment its JSON file is there, and that file appears whole, after the predictions
    it names. Predictions have their own hash in their file's name, so two writers of the same run cannot mix theirs.

    Example:
        >>> import tempfile
        >>> Store(tempfile.mkdtemp()).names()
        []
    """

    def __init__(self, folder: str | Path) -> None:
        require("a results store", "results", "pyarrow", "duckdb")
        self.folder = Path(folder)
        self.folder.mkdir(parents=True, exist_ok=True)

    def names(self) -> list[str]:
        """Runs that are there, damaged ones too."""
        return sorted(path.stem for path in self.folder.glob("*.json"))

    def has(self, name: str) -> bool:
        """Whether a run is there, and whole; one that is damaged has to be done again."""
        try:
            record = self.read(name)
        except (FileNotFoundError, DamagedRecordError):
            return False
        return record.predictions is None or (self.folder / record.predictions).is_file()

    def write(self, record: Record, predictions: Predictions | None = None) -> Record:
        """Add a run, in place of an earlier one of the same name; returns the record with its predictions' file."""
        if predictions is not None:
            table = to_parquet(predictions)
            file = f"{record.name}.{hashlib.blake2b(table, digest_size=6).hexdigest()}.parquet"
            write_whole(self.folder / file, table)
            record = replace(record, predictions=file)
        write_whole(self.path(record.name), record.to_json().encode())  # from here on the run is in the store
        return record

    def path(self, name: str) -> Path:
        """File of a run's record."""
        return self.folder / f"{name}.json"

    def read(self, name: str) -> Record:
        """The record of a run.

        Raises:
            FileNotFoundError: There is no such run.
            DamagedRecordError: Its file is damaged.
        """
        path = self.path(name)
        try:
            record = Record.from_json(path.read_text(encoding="utf-8"))
        except (DamagedRecordError, UnicodeDecodeError) as error:
            raise DamagedRecordError(f"{path}: {error}") from error
        if record.name != name:
            raise DamagedRecordError(f"{path}: holds the run {record.name!r}; was the file renamed?")
        return record

    def scan(self) -> Iterator[Record | Damaged]:
        """Every record, in the order of the names; a file that cannot be used comes as what is wrong with it."""
        for name in self.names():
            try:
                yield self.read(name)
            except DamagedRecordError as error:
                yield Damaged(self.path(name), str(error))
            except FileNotFoundError:  # deleted by someone else since the names were listed
                continue

    def records(self) -> list[Record]:
        """Every record that is whole."""
        return [entry for entry in self.scan() if isinstance(entry, Record)]

    def damaged(self) -> list[Damaged]:
        """Every file that should be a record and is not."""
        return [entry for entry in self.scan() if isinstance(entry, Damaged)]

    def predictions(self, name: str) -> Predictions:
        """Per-image predictions of a run.

        Raises:
            FileNotFoundError: There is no such run, or it has no predictions.
            DamagedRecordError: The file is not the one that was written.
        """
        file = self.read(name).predictions
        if file is None or Path(file).name != file:
            raise FileNotFoundError(f"{self.path(name)} names no predictions: run it again with --store")
        table = (self.folder / file).read_bytes()
        if f".{hashlib.blake2b(table, digest_size=6).hexdigest()}." not in file:
            raise DamagedRecordError(f"{self.folder / file} is damaged: delete it and run {name} again")
        return from_parquet(table)

    def clean(self, older_than: float = 86400.0) -> list[str]:
        """Delete half-written files that dead processes left, if nothing has touched them for so many seconds."""
        return remove_leftovers(self.folder, older_than)
