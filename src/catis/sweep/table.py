"""Reads a TOML table key by key: types are checked, errors name file and key, and no key is ignored."""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from catis.errors import CatisError

_VARIABLE = re.compile(r"\$\{(\w+)(?::-([^}]*))?\}")
_KINDS = {str: "text", bool: "true or false", int: "a whole number", float: "a number", list: "a list", dict: "a table"}
MISSING = object()


class PlanError(CatisError, ValueError):
    """A plan file that cannot be run; the message names the file, the key, what was given and what is allowed."""


class Table:
    """A TOML table that knows where it is written: the plan file, to which paths are relative, and the keys to it.

    Example:
        >>> table = Table({"limit": "many"}, Path("plan.toml"), "data[0]")
        >>> table.take("limit", int)
        Traceback (most recent call last):
        ...
        catis.sweep.table.PlanError: plan.toml, data[0].limit: 'many' is text, expected a whole number
    """

    def __init__(self, values: Mapping[str, Any], file: Path, path: str = "") -> None:
        self._values, self.file, self.path = dict(values), file, path
        self._known: list[str] = []

    def error(self, key: str, problem: str) -> PlanError:
        """An error at a key of this table; an empty key means the table itself."""
        place = ".".join(part for part in (self.path, key) if part)
        return PlanError(f"{self.file}, {place}: {problem}" if place else f"{self.file}: {problem}")

    def take(self, key: str, kind: type, default: Any = MISSING, allowed: Sequence[Any] = ()) -> Any:
        """The value of a key, of the type asked for; a whole number is also a number."""
        self._known.append(key)
        if key not in self._values:
            if default is MISSING:
                raise self.error(key, f"is missing, expected {_KINDS[kind]}")
            return default
        value = self._values[key]
        if kind is float and type(value) is int:
            value = float(value)
        if type(value) is not kind:
            raise self.error(key, f"{value!r} is {_KINDS.get(type(value), 'a date')}, expected {_KINDS[kind]}")
        if allowed and value not in allowed:
            raise self.error(key, f"{value!r}: expected one of {', '.join(map(str, allowed))}")
        return value

    def whole(self, key: str, default: Any = MISSING, low: int = 0) -> Any:
        """A whole number that is not too small."""
        value = self.take(key, int, default)
        if value is not None and value < low:
            raise self.error(key, f"{value}: expected a whole number, at least {low}")
        return value

    def spread(self, key: str, kind: type, allowed: Sequence[Any] = ()) -> list[Any]:
        """One value or a list of values; [] where the key is absent."""
        value = self._values.get(key, [])
        items = value if isinstance(value, list) else [value]
        self._known.append(key)
        return [
            Table({f"{key}[{i}]": item}, self.file, self.path).take(f"{key}[{i}]", kind, allowed=allowed)
            for i, item in enumerate(items)
        ]

    def raw(self, key: str) -> Any:
        """A value whose type the caller checks; None where the key is absent."""
        self._known.append(key)
        return self._values.get(key)

    def table(self, key: str) -> Table:
        """A table below this one; an empty one where the key is absent."""
        path = f"{self.path}.{key}" if self.path else key
        return Table(self.take(key, dict, {}), self.file, path)

    def entries(self, key: str) -> list[Table]:
        """Tables of a list; a text in it is short for a table with that name."""
        tables = []
        for place, value in enumerate(self.take(key, list, [])):
            named = {"name": value} if isinstance(value, str) else value
            if not isinstance(named, dict):
                raise self.error(f"{key}[{place}]", f"{value!r}: expected a table or a name")
            tables.append(Table(named, self.file, f"{key}[{place}]"))
        return tables

    def keys(self) -> list[str]:
        """Keys that are written, in their order."""
        return list(self._values)

    def place(self, key: str) -> Path | None:
        """A path: ${NAME} and ${NAME:-default} come from the environment, the rest is relative to the plan file."""
        text = self.take(key, str, None)
        if text is None:
            return None
        expanded = Path(_VARIABLE.sub(lambda match: self._variable(key, match), text)).expanduser()
        return expanded if expanded.is_absolute() else Path(os.path.normpath(self.file.parent / expanded))

    def close(self) -> None:
        """Refuse keys that nobody asked for."""
        unknown = [key for key in self._values if key not in self._known]
        if unknown:
            raise self.error(unknown[0], f"is not a key here; expected {', '.join(dict.fromkeys(self._known))}")

    def _variable(self, key: str, match: re.Match[str]) -> str:
        name, default = match.groups()
        value = os.environ.get(name) or default
        if value is None:
            raise self.error(key, f"the environment variable {name} is not set; try  {name}=DIR catis sweep ...")
        return value


def read_table(file: Path) -> Table:
    """The root table of a TOML file."""
    try:
        return Table(tomllib.loads(file.read_text(encoding="utf-8")), file)
    except OSError as error:
        raise PlanError(f"{file}: cannot be read: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise PlanError(f"{file}: is not TOML: {error}") from error
