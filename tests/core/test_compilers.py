"""The C functions are plain C11 outside one header, so that Clang and MSVC can compile them; Clang does so here.

MSVC cannot be run here: that it would take the sources is concluded from strict C11 without extensions, not seen.
"""

import importlib.machinery
import importlib.util
import re
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
NATIVE = ROOT / "src" / "catis" / "native"
SOURCES = sorted(NATIVE.glob("*.c"))
EXTENSIONS = re.compile(r"__attribute__|__builtin_|__typeof|\btypeof\b|_Pragma|__int128|\(\{|__asm|__restrict")
needs_clang = pytest.mark.skipif(shutil.which("clang") is None, reason="no clang here: that it compiles is NOT tested")


def test_extensions_are_in_one_header():
    found = {path.name for path in (*SOURCES, *NATIVE.glob("*.h")) if EXTENSIONS.search(path.read_text())}
    assert found == {"lanes.h"}


@needs_clang
@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.name)
def test_strict_c11(path):
    strict = ["-std=c11", "-pedantic-errors", "-Werror", "-Wall", "-Wextra", "-Wvla", "-Wgnu", "-Wno-unknown-pragmas"]
    call = ["clang", "-fsyntax-only", *strict, "-isystem", sysconfig.get_path("include"), str(path)]
    done = subprocess.run(call, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@needs_clang
@pytest.mark.skipif(sys.platform == "win32", reason="hatch_build compiles nothing on Windows")
def test_clang_builds_a_library_with_the_same_functions(tmp_path, monkeypatch):
    spec = importlib.util.spec_from_file_location("hatch_build", ROOT / "hatch_build.py")
    hatch_build = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(hatch_build)
    monkeypatch.setenv("CC", "clang")
    product = tmp_path / hatch_build.PRODUCT
    assert hatch_build.build(NATIVE, product) == ""
    name = hatch_build.PRODUCT.partition(".")[0]
    code = (
        "import importlib.machinery as m, importlib.util as u\n"
        f"loader = m.ExtensionFileLoader({name!r}, {str(product)!r})\n"
        f"module = u.module_from_spec(u.spec_from_loader({name!r}, loader))\n"
        "loader.exec_module(module)\n"
        "print(*(name for name in dir(module) if not name.startswith('_')))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert {"decide_tome", "decide_pitome", "decide_catis", "decide_mctf"} <= set(done.stdout.split())
