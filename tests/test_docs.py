"""The documentation runs: doctests of every module, the README's Python, and its promises name tests that exist."""

import doctest
import importlib
import pkgutil
import re
import runpy
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import timm
import transformers
import typer
from PIL import Image

import catis
from catis.cli import app
from catis.hosts.lookup import REFUSED

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
MODULES = sorted(name for _, name, _ in pkgutil.walk_packages(catis.__path__, "catis.") if name != "catis.__main__")


@pytest.mark.parametrize("name", MODULES)
def test_doctests(name):
    flags = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
    assert doctest.testmod(importlib.import_module(name), optionflags=flags).failed == 0


def test_doctests_are_found():
    finder = doctest.DocTestFinder()
    assert any(test.examples for test in finder.find(importlib.import_module("catis.api")))


RUNNABLE = [
    ROOT / "README.md",
    *(ROOT / "docs" / page for page in ("api.md", "budget.md", "extending.md", "hosts.md", "multimodal.md")),
]
SHOWN = r"```python\n(.*?)```(?:\n```\n(.*?)```)?"  # a block of output right below the code is what the code prints
SNIPPETS = [(page.name, *found) for page in RUNNABLE for found in re.findall(SHOWN, page.read_text(), re.DOTALL)]


@pytest.mark.parametrize(
    ("page", "code", "output"), SNIPPETS, ids=[f"{page}-{i}" for i, (page, *_) in enumerate(SNIPPETS)]
)
def test_python_of_the_pages_runs_and_prints_what_they_show(page, code, output, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "snippet.py").write_text(code)
    runpy.run_path("snippet.py")
    assert not output or capsys.readouterr().out == output


def test_the_readme_has_a_snippet_and_some_page_an_output():
    assert any(page == "README.md" for page, *_ in SNIPPETS)
    assert any(output for *_, output in SNIPPETS)


def test_the_readme_is_short():
    assert len(README.splitlines()) <= 150


def test_the_first_picture_of_the_readme_moves_and_catis_makes_it(tmp_path, monkeypatch):
    """Before and after, block by block, from the script that the picture's page names; nothing is drawn by hand."""
    first = re.search(r"!\[[^]]*\]\(([^)]+)\)", README)
    assert first is not None
    assert first[1] == "docs/img/strip.gif"
    monkeypatch.setattr(sys, "argv", ["strip.py", str(tmp_path / "strip.gif")])
    runpy.run_path(str(ROOT / "examples" / "strip.py"), run_name="__main__")
    with Image.open(ROOT / first[1]) as shown, Image.open(tmp_path / "strip.gif") as again:
        assert shown.n_frames == again.n_frames == 12  # one for each block
        for frame in (0, shown.n_frames - 1):
            shown.seek(frame)
            again.seek(frame)
            assert np.allclose(shown.size, again.size, atol=16)  # other fonts are a little wider
            common = (0, 0, *np.minimum(shown.size, again.size).tolist())
            pair = [np.asarray(one.convert("RGB").crop(common), float) for one in (shown, again)]
            assert np.abs(pair[0] - pair[1]).mean() < 12


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page):
    targets = re.findall(r"\]\(([^)#]+?)(?:#[^)]*)?\)", page.read_text())
    missing = [one for one in targets if not one.startswith("http") and not (page.parent / one).exists()]
    assert missing == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_named_tests_exist(page):
    for path, name in re.findall(r"`(tests/[\w/]+\.py)(?:::(\w+))?`", page.read_text()):
        assert (ROOT / path).is_file(), path
        assert not name or f"def {name}(" in (ROOT / path).read_text(), (path, name)


def test_at_most_twelve_public_names():
    assert len(catis.__all__) <= 12
    assert catis.__all__ == sorted(catis.__all__)
    for name in catis.__all__:
        assert callable(getattr(catis, name)), name
        assert f"| `{name}" in (ROOT / "docs" / "api.md").read_text()
        assert name in dir(catis)
    with pytest.raises(AttributeError, match="has no attribute 'nonsense'"):
        catis.nonsense  # noqa: B018


def test_no_module_has_the_name_of_a_public_function():
    """Whoever imports the module first would otherwise find it in place of the function."""
    modules = {path.stem for path in (ROOT / "src" / "catis").iterdir()}
    assert not modules & set(catis.__all__)


def test_ci_runs_the_command_of_the_readme():
    script = ROOT / ".ci" / "run"
    shown = subprocess.run([script, "--print"], capture_output=True, text=True, check=True).stdout.splitlines()
    assert shown == ["pip install '.[test]' && pytest -n 2", *shown[1:]]
    assert all(one in README for one in shown)


def test_the_list_of_models_is_that_of_the_code():
    text = (ROOT / "docs" / "models.md").read_text()
    listing = runpy.run_path(str(ROOT / "docs" / "listing.py"))["listing"]
    assert listing() in text, "run python docs/listing.py docs/models.md"


def test_every_refused_class_exists():
    for name in REFUSED["timm"]:
        assert any(hasattr(module, name) for module in vars(timm.models).values()), name
    for name in REFUSED["transformers"]:
        sam = name == "SamVisionEncoder"
        home = importlib.import_module("transformers.models.sam.modeling_sam") if sam else transformers
        assert hasattr(home, name), name


def commands(page: Path) -> list[list[str]]:
    """Every `catis ...` in the shell and output blocks of a page, as words, without comments."""
    words = []
    for language, block in re.findall(r"^```(\w*)\n(.*?)^```$", page.read_text(), re.DOTALL | re.MULTILINE):
        for line in [] if language not in ("", "sh", "bash", "text") else block.replace("\\\n", " ").splitlines():
            match = re.match(r"(?:\$ |pip install \S+ && |    )?catis (?!demo,)(.*)", line)
            if match:
                words.append(shlex.split(match[1].removesuffix("; do"), comments=True))
    return words


COMMANDS = [(page.name, words) for page in PAGES for words in commands(page)]


@pytest.mark.parametrize(("page", "words"), COMMANDS, ids=[f"{page}-{' '.join(words)}" for page, words in COMMANDS])
def test_commands_of_the_pages_exist_with_their_options(page, words):
    """Parsed as the command line parses them, types too, and not run."""
    group = typer.main.get_command(app)
    command = group.commands[words[0]]
    command.make_context(words[0], words[1:])


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_options_named_in_the_text_exist(page):
    group = typer.main.get_command(app)
    parameters = [*group.params, *(one for command in group.commands.values() for one in command.params)]
    known = {"--help", *(word for one in parameters for word in (*one.opts, *one.secondary_opts))}
    text = re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)
    spans = [span for span in re.findall(r"`([^`\n]+)`", text) if not span.startswith("python ")]
    named = {option for span in spans for option in re.findall(r"(?:^| )(--[a-z][\w-]*)", span)}
    assert named - known == set()


def test_a_wrong_command_would_be_seen():
    assert len(COMMANDS) > 30
    with pytest.raises(Exception, match="No such option: --pretraned"):  # of click, or of typer's own copy of it
        typer.main.get_command(app).commands["gmacs"].make_context("gmacs", ["tiny-6", "-r", "3", "--pretraned"])
