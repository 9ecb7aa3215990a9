"""Which package may import which: cli -> workflows -> diagnostics, hosts, native, models, data -> methods -> core."""

import ast
from pathlib import Path

import pytest

import catis

ROOT = Path(catis.__file__).parent
TIERS = (
    ("errors", "files"),
    ("core", "registry"),
    ("methods", "reference"),
    ("data", "diagnostics", "hosts", "models", "native", "zoo", "inference"),
    ("api", "recipes", "macs", "described"),
    (
        "app",
        "bench",
        "calibration",
        "demo",
        "evaluate",
        "export",
        "health",
        "pictures",
        "report",
        "runs",
        "sweep",
        "tuning",
    ),
    ("cli", "__main__", "__init__"),
)
TIER = {name: tier for tier, names in enumerate(TIERS) for name in names}


def imported(tree: ast.AST) -> set[str]:
    """Parts of catis that a file imports anywhere: at the top, inside a function, or for types only."""
    modules = {name.name for node in ast.walk(tree) if isinstance(node, ast.Import) for name in node.names}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module == "catis":
            modules |= {f"catis.{name.name}" for name in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            modules.add(node.module)
    return {module.split(".")[1] for module in modules if module.startswith("catis.")} & TIER.keys()


@pytest.mark.parametrize("path", sorted(ROOT.rglob("*.py")), ids=lambda path: str(path.relative_to(ROOT)))
def test_imports_go_down(path):
    tier = TIER[path.relative_to(ROOT).parts[0].removesuffix(".py")]
    assert [name for name in imported(ast.parse(path.read_text())) if TIER[name] > tier] == []


def test_no_module_has_the_name_of_a_public_function():
    assert {path.stem for path in ROOT.iterdir()} & set(catis.__all__) == set()


def test_an_upward_import_is_seen():
    code = "def f():\n    from catis.cli import main\n    from catis import bench"
    assert imported(ast.parse(code)) == {"cli", "bench"}
