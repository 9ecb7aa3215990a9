"""Checks the options of a method against the types that its class declares, so that no method checks them itself."""

from __future__ import annotations

import types
from collections.abc import Mapping
from dataclasses import fields
from numbers import Integral, Real
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from catis.core.method import Method

_WORDS = {bool: "True or False", int: "a whole number", float: "a number", str: "text", type(None): "None"}


def checked_options(name: str, kind: type[Method], options: Mapping[str, Any]) -> dict[str, Any]:
    """The options of a method, lists made tuples, each of the type that the dataclass `kind` declares for it.

    Example:
        >>> from catis.reference.mctf import MCTFReference
        >>> checked_options("mctf", MCTFReference, {"blocks": [1, 2]})
        {'blocks': (1, 2)}
        >>> checked_options("mctf", MCTFReference, {"tau_sim": "high"})
        Traceback (most recent call last):
        ...
        ValueError: mctf: tau_sim='high': expected a number
    """
    known = [option.name for option in fields(kind)]
    unknown = sorted(set(options) - set(known))
    if unknown:
        raise ValueError(f"{name} has no option {', '.join(map(repr, unknown))}; its options are {', '.join(known)}")
    hints = get_type_hints(kind) if options else {}
    given = {option: tuple(value) if isinstance(value, list) else value for option, value in options.items()}
    for option, value in given.items():
        if not _fits(value, hints[option]):
            raise ValueError(f"{name}: {option}={options[option]!r}: expected {_words(hints[option])}")
    return given


def _fits(value: Any, hint: Any) -> bool:
    origin, arguments = get_origin(hint), get_args(hint)
    if hint is Any:
        return True
    if origin in (Union, types.UnionType):
        return any(_fits(value, choice) for choice in arguments)
    if origin is Literal:
        return any(value == choice and type(value) is type(choice) for choice in arguments)
    if origin is tuple:
        return isinstance(value, tuple) and all(_fits(item, arguments[0]) for item in value)
    if hint in (int, float):
        return isinstance(value, Integral if hint is int else Real) and not isinstance(value, bool)
    return isinstance(value, origin or hint)


def _words(hint: Any) -> str:
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        return " or ".join(_words(choice) for choice in arguments)
    if origin is Literal:
        return "one of " + ", ".join(map(repr, arguments))
    if origin is tuple:
        return f"a list of {_words(arguments[0]).removeprefix('a ')}s"
    return _WORDS.get(hint, getattr(hint, "__name__", str(hint)))
