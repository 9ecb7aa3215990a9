"""Lint, format, types, and rules of the house that no linter knows."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SOURCES = sorted((ROOT / "src").rglob("*.py"))


@pytest.mark.parametrize(
    "command",
    [["ruff", "check", "."], ["ruff", "format", "--check", "."], ["mypy", "--strict", "src"]],
    ids=["ruff-check", "ruff-format", "mypy-strict"],
)
def test_tool(command):
    done = subprocess.run([sys.executable, "-m", *command], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def calls(tree: ast.AST) -> list[ast.Call]:
    return [node for node in ast.walk(tree) if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)]


def unsafe_loads(tree: ast.AST) -> list[int]:
    """Lines of torch.load without weights_only=True, np.load without allow_pickle=False, and of any pickle.load."""
    wanted = {("torch", "load"): ("weights_only", True), ("np", "load"): ("allow_pickle", False)}
    wanted |= {
        ("numpy", "load"): ("allow_pickle", False),
        ("pickle", "load"): ("", None),
        ("pickle", "loads"): ("", None),
    }
    lines = []
    for call in calls(tree):
        key = (ast.unparse(call.func.value), call.func.attr)
        given = {word.arg: ast.unparse(word.value) for word in call.keywords}
        if key in wanted and given.get(wanted[key][0]) != str(wanted[key][1]):
            lines.append(call.lineno)
    return lines


def test_the_rule_itself():
    code = "torch.load(f)\ntorch.load(f, weights_only=True)\nnp.load(f)\nnp.load(f, allow_pickle=False)\npickle.load(f)"
    assert unsafe_loads(ast.parse(code)) == [1, 3, 5]


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_source_file(path):
    tree = ast.parse(path.read_text())
    assert unsafe_loads(tree) == []
    caught = [ast.unparse(node.type) for node in ast.walk(tree) if isinstance(node, ast.ExceptHandler) and node.type]
    bare = [node.lineno for node in ast.walk(tree) if isinstance(node, ast.ExceptHandler) and node.type is None]
    assert not {"Exception", "BaseException"} & set(caught)
    assert bare == []
    names = {
        ast.unparse(word.value) for call in calls(tree) for word in call.keywords if word.arg == "trust_remote_code"
    }
    assert names <= {"False"}
