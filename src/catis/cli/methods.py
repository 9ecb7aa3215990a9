"""`catis methods`: which methods there are, who brings them, and their options."""

from __future__ import annotations

from rich.console import Console

from catis.report.table import Cell, Table


def methods_command() -> None:
    """List the methods with the package each comes from and its options with their defaults."""
    from catis.registry import describe_methods

    rows = [
        [
            method.name,
            method.origin,
            Cell(method.problem, "bad")
            if method.problem
            else ", ".join(f"{name}={value!r}" for name, value in method.options.items()),
        ]
        for method in describe_methods()
    ]
    Table(["method", "from", "options"], rows, prose=True).print(Console(highlight=False))
