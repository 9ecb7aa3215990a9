"""`catis methods`: which methods there are, who brings them, and their options."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table

__all__ = ["methods_command"]


def methods_command() -> None:
    """List the methods with the package each comes from and its options with their defaults."""
    from catis.registry import describe_methods

    table = Table("method", "from", "options")
    for one in describe_methods():
        options = one.problem or ", ".join(f"{name}={value!r}" for name, value in one.options.items())
        table.add_row(one.name, one.origin, options, style="red" if one.problem else None)
    Console(highlight=False).print(table, markup=False)
