"""Compiles src/catis/native when the package is built, if there is a C compiler; without one catis works, slower."""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

SOURCES = Path("src/catis/native")
PRODUCT = "compiled.abi3.so"  # the stable interface of Python 3.11 and later
FLAGS = ["-std=gnu11", "-O3", "-fPIC", "-shared", "-fvisibility=hidden", "-fno-math-errno", "-fno-trapping-math"]


class NativeBuild(BuildHookInterface[Any]):
    """Puts the compiled functions into wheels, and beside their sources for an editable install."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Called by hatchling before it collects the files."""
        if self.target_name != "wheel" or os.environ.get("CATIS_NATIVE") == "0":
            return
        sources = Path(self.root) / SOURCES
        editable = version == "editable"
        self._made = None if editable else tempfile.mkdtemp(prefix="catis-build-")
        product = (sources if editable else Path(str(self._made))) / PRODUCT
        failure = build(sources, product)
        if failure:
            self.app.display_warning(f"catis: built without its compiled functions, so it will be slower. {failure}")
            return
        if not editable:
            build_data["force_include"][str(product)] = f"catis/native/{PRODUCT}"
        build_data["pure_python"] = False
        build_data["tag"] = f"cp311-abi3-{_platform(product)}"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Called when the wheel is written."""
        if getattr(self, "_made", None):
            shutil.rmtree(str(self._made))


def build(sources: Path, product: Path) -> str:
    """Compile; returns why it was not possible, or nothing. Tried with OpenMP, then without."""
    compiler = _compiler()
    if compiler is None:
        return "There is no C compiler (cc, gcc, clang, or $CC) that it could use: install one, then catis again."
    if not (Path(sysconfig.get_path("include")) / "Python.h").exists():
        return "Python.h is missing: install Python's headers (python3-dev), then catis again."
    files = [str(file) for file in sorted(sources.glob("*.c"))]
    include = f"-I{sysconfig.get_path('include')}"
    command = [*compiler, *FLAGS, *_own_flags(), include, *files, "-o", str(product), "-lm"]
    for extra in (["-fopenmp"], []):
        done = subprocess.run([*command, *extra], capture_output=True, text=True)
        if done.returncode == 0:
            return ""
    return f"{' '.join(command)} failed:\n{done.stderr[-2000:]}"


def _compiler() -> list[str] | None:
    if sys.platform == "win32":  # what Windows calls a compiler takes other flags
        return None
    named = os.environ.get("CC", "").split()
    if named:
        return named if shutil.which(named[0]) else None
    found = next((path for name in ("cc", "gcc", "clang") if (path := shutil.which(name))), None)
    return [found] if found else None


def _own_flags() -> list[str]:
    if sys.platform == "darwin":
        return ["-undefined", "dynamic_lookup"]
    return ["-mprefer-vector-width=512"] if platform.machine() in ("x86_64", "AMD64") else []


def _platform(product: Path) -> str:
    """The platform that a wheel with this file runs on: any Linux whose glibc is new enough for the symbols it uses.

    libgomp, which it needs too, is in every PyTorch; so the wheel has none of its own, and shares PyTorch's threads.
    """
    name = sysconfig.get_platform().replace("-", "_").replace(".", "_")
    versions = [int(minor) for minor in re.findall(rb"GLIBC_2\.(\d+)", product.read_bytes())]
    if not name.startswith("linux_") or platform.libc_ver()[0] != "glibc" or not versions:
        return name
    return f"manylinux_2_{max(versions)}_{name.removeprefix('linux_')}"
