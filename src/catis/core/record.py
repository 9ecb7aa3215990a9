"""Dataclasses that nobody changes, made where every microsecond counts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar, dataclass_transform

Kind = TypeVar("Kind")

if TYPE_CHECKING:

    @dataclass_transform(frozen_default=True)
    def record(cls: type[Kind]) -> type[Kind]:
        """Frozen, for the type checker."""

else:

    def record(cls: Any) -> Any:
        """A dataclass that the type checker takes for frozen.

        Frozen at run time too, it would be made by one call per field: three such objects a block are one percent of a
        small model's time. Use `dataclasses.replace` to get a changed one.
        """
        return dataclass(cls)
