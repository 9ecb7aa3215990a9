"""What can go wrong, as classes: one base, so that `except catis.errors.CatisError` catches all of ours."""

from __future__ import annotations

from importlib.util import find_spec


class CatisError(Exception):
    """Base of every error that catis raises on purpose, apart from ValueErrors for bad arguments."""


class UnsupportedModelError(CatisError, TypeError):
    """The model has a part that catis cannot reduce rightly; it was left as it was.

    Example:
        >>> import catis, torch
        >>> catis.apply(torch.nn.Linear(2, 2), "tome", r=1)
        Traceback (most recent call last):
        ...
        catis.errors.UnsupportedModelError: no Vision Transformer found in Linear. ...
    """


class MissingExtraError(CatisError, ImportError):
    """A part of catis needs packages that are not installed; the message has the pip command."""

    def __init__(self, what: str, extra: str) -> None:
        super().__init__(f"{what} needs the {extra!r} extra. Install it with:  pip install 'catis[{extra}]'")


def require(what: str, extra: str, *packages: str) -> None:
    """Raise MissingExtraError, with the pip command, unless all packages of an extra can be imported."""
    if any(find_spec(package) is None for package in packages):
        raise MissingExtraError(what, extra)


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an error says that memory ran out, on any device. PyTorch's own class is known by name: no import.

    Example:
        >>> is_out_of_memory(MemoryError()), is_out_of_memory(RuntimeError("shapes do not match"))
        (True, False)
    """
    said = str(error).lower()
    named = isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError"
    return named or (isinstance(error, RuntimeError) and ("out of memory" in said or "can't allocate memory" in said))
