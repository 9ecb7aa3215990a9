"""What was tried, line by line in a file: a killed run that is started again finds its answers there."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any


class Journal:
    """Values by what they are values of. Lines of another run (other images, seed or weights) are left alone.

    Args:
        file: Where lines are added; None keeps them in memory only.
        run: Everything that a value depends on besides its question.

    Example:
        >>> journal = Journal(None, {"seed": 0})
        >>> journal.keep({"r": 3}, 0.25)
        >>> journal.knows({"r": 3}), journal.recall({"r": 3})
        (True, 0.25)
    """

    def __init__(self, file: Path | None, run: dict[str, Any]) -> None:
        self._file, self._run = file, _digest(run)
        self.values: dict[str, float] = {}
        self.tried: list[dict[str, Any]] = []
        content = file.read_text(encoding="utf-8") if file is not None and file.exists() else ""
        self._cut_off = not content.endswith("\n") and content != ""
        for line in content.splitlines():
            self._read(line)

    def knows(self, question: dict[str, Any]) -> bool:
        """Whether the value is known already."""
        return _digest(question) in self.values

    def keep(self, question: dict[str, Any], value: float) -> None:
        """Keep a value, in the file first."""
        key = _digest(question)
        self._write({"run": self._run, "key": key, "value": value, **question})
        self.values[key] = value

    def recall(self, question: dict[str, Any]) -> float:
        """The value of a question that is known; it counts as tried."""
        value = self.values[_digest(question)]
        self.tried.append({**question, "value": value})
        return value

    def _read(self, line: str) -> None:
        try:
            entry = json.loads(line)
        except ValueError:  # the last line of a killed run may be cut off
            return
        if entry.get("run") == self._run:
            self.values[entry["key"]] = entry["value"]

    def _write(self, entry: dict[str, Any]) -> None:
        if self._file is None:
            return
        self._file.parent.mkdir(parents=True, exist_ok=True)
        with self._file.open("a", encoding="utf-8") as file:
            file.write(("\n" if self._cut_off else "") + json.dumps(entry) + "\n")
        self._cut_off = False


def _digest(content: dict[str, Any]) -> str:
    return hashlib.blake2b(json.dumps(content, sort_keys=True).encode(), digest_size=12).hexdigest()
