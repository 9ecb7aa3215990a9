"""The command line: parses, calls a workflow, prints."""


def main() -> None:
    """Entry point of the `catis` command."""
    raise SystemExit("not yet")
