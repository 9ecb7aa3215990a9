"""Methods by name, found through the entry-point group `catis.methods`, ours and third parties' alike."""

from __future__ import annotations

from dataclasses import fields
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from catis.core.method import Method

__all__ = ["create_method", "list_methods"]

GROUP = "catis.methods"


def list_methods() -> list[str]:
    """Names that `catis.apply` takes, ours and those that installed packages add.

    Example:
        >>> import catis
        >>> [name for name in ("catis", "mctf", "pitome", "tofu", "tome") if name in catis.list_methods()]
        ['catis', 'mctf', 'pitome', 'tofu', 'tome']
    """
    return sorted(entry_points(group=GROUP).names)


def create_method(name: str, **options: Any) -> Method:
    """Build a method from its name and options.

    Raises:
        ValueError: No such method, an option it does not have, or a value it does not take.

    Example:
        >>> create_method("pitome", margin=0.5).margin
        0.5
    """
    if isinstance(name, Method):
        raise ValueError(f"method={name!r}: pass a built method to catis.apply itself, without options")
    kind = _load(name)
    known = [field.name for field in fields(kind)]
    unknown = sorted(set(options) - set(known))
    if unknown:
        raise ValueError(f"{name} has no option {', '.join(map(repr, unknown))}; its options are {', '.join(known)}")
    return kind(**options)


def _load(name: str) -> type[Method]:
    found: list[EntryPoint] = [point for point in entry_points(group=GROUP) if point.name == name]
    if not found:
        raise ValueError(f"method={name!r}: expected one of {', '.join(list_methods())}")
    origins = sorted({point.value for point in found})
    if len(origins) > 1:
        raise ValueError(f"method={name!r} is offered by several packages: {', '.join(origins)}; uninstall all but one")
    kind = found[0].load()
    if not (isinstance(kind, type) and issubclass(kind, Method)):
        raise ValueError(f"entry point {origins[0]!r} of method {name!r} is not a subclass of catis.core.method.Method")
    return kind
