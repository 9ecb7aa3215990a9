"""Methods by name, found through entry points, ours and third parties' alike."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from catis.core.method import Method
from catis.core.options import checked_options

GROUP = "catis.methods"
REFERENCE = "catis.reference"
"""Entry points of the authors' own forms, what `reference=True` makes of the method of that name."""


def list_methods() -> list[str]:
    """Names that `catis.apply` takes, ours and those that installed packages add.

    Example:
        >>> import catis
        >>> [name for name in ("catis", "mctf", "pitome", "tofu", "tome") if name in catis.list_methods()]
        ['catis', 'mctf', 'pitome', 'tofu', 'tome']
    """
    return sorted(entry_points(group=GROUP).names)


@dataclass(frozen=True)
class MethodInfo:
    """What is known of a method before it is used."""

    name: str  # what `catis.apply` calls it
    origin: str  # package and version that bring it
    options: Mapping[str, Any] = field(default_factory=dict)  # options with their defaults
    problem: str = ""  # why it cannot be used; empty if it can


def describe_methods() -> list[MethodInfo]:
    """All methods with their origin and options; one that cannot be loaded is told, not raised.

    Example:
        >>> next(method.options["tau"] for method in describe_methods() if method.name == "catis")
        1.0
    """
    described = []
    for name in list_methods():
        packages = [point.dist for point in entry_points(group=GROUP) if point.name == name]
        origin = ", ".join(sorted({f"{dist.name} {dist.version}" if dist else "unknown" for dist in packages}))
        try:
            kind = _load(name)
        except ValueError as error:
            described.append(MethodInfo(name, origin, problem=str(error)))
        else:
            described.append(MethodInfo(name, origin, _options(name, kind)))
    return described


def _options(name: str, kind: type[Method]) -> dict[str, Any]:
    """Options with their defaults: the method's own, then `reference` and those of the authors' form."""
    own, form = {option.name: option.default for option in fields(kind)}, _authors_form(name)
    if form is None:
        return own
    theirs = {option.name: option.default for option in fields(form)}
    return (
        own | {"reference": False} | {option: theirs[option] for option in theirs if option not in (*own, "reference")}
    )


def create_method(name: str, **options: Any) -> Method:
    """Build a method from its name and options; `reference=True` is the authors' own form, where there is one.

    Raises:
        ValueError: No such method, an option it does not have, or a value it does not take.

    Example:
        >>> create_method("pitome", margin=0.5).margin
        0.5
        >>> type(create_method("tome", reference=True, ratio=0.9)).__name__
        'ToMeReference'
    """
    if isinstance(name, Method):
        raise ValueError(f"method={name!r}: pass a built method to catis.apply itself, without options")
    kind = _load(name)
    form = _authors_form(name)
    options = checked_options(name, form or kind, options)
    if form is not None:
        kind = form if options.pop("reference", False) else _without_theirs(name, kind, options)
    return kind(**options)


def _authors_form(name: str) -> type[Method] | None:
    return _load(name, REFERENCE) if name in entry_points(group=REFERENCE).names else None


def _without_theirs(name: str, kind: type[Method], options: dict[str, Any]) -> type[Method]:
    """Our own form, whose options are left in `options`; what is the authors' may only be at its default."""
    own, known = {option.name for option in fields(kind)}, _options(name, kind)
    for option in sorted(set(options) - own):
        value = options.pop(option)
        if value != known[option]:
            raise ValueError(f"{name}: {option}={value!r} belongs to the authors' form: set reference=True")
    return kind


def _load(name: str, group: str = GROUP) -> type[Method]:
    points: list[EntryPoint] = [point for point in entry_points(group=group) if point.name == name]
    if not points:
        raise ValueError(f"method={name!r}: expected one of {', '.join(list_methods())}")
    origins = sorted({point.value for point in points})
    if len(origins) > 1:
        raise ValueError(f"method={name!r} is offered by several packages: {', '.join(origins)}; uninstall all but one")
    try:
        kind = points[0].load()
    except (ImportError, AttributeError) as error:
        raise ValueError(f"method={name!r} cannot be loaded from {origins[0]!r}: {error}") from error
    if not (isinstance(kind, type) and issubclass(kind, Method)):
        raise ValueError(f"entry point {origins[0]!r} of method {name!r} is not a subclass of catis.core.method.Method")
    return kind
