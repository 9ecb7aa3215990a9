"""Changes one comparison in the C sources at a time, and looks whether a test falls.

    python tests/mutations.py            all, in copies of the checkout: some 20 minutes
    python tests/mutations.py mctf.c     those of one file

A mutation that no test notices is a promise that nothing checks; then this exits with 1.
"""

import importlib
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import hypothesis  # noqa: F401  once, for all children
import pytest

ROOT = Path(__file__).parents[1]
TESTS = ("tests/core/test_native.py", "tests/golden")
FIRST = {
    "softmax.h": "hundreds",
    "tome.c": "tome",
    "pitome.c": "pitome",
    "catis.c": "catis",
    "received.c": "mctf",
    "mctf.c": "mctf",
    "merge.c": "merging or plan_of or wrong_plan",
    "fields.c": "wrong_arguments or in_order or plan_of",
    "module.c": "wrong_arguments or half or ties",
}
"""Tests by file that are likely to fall: tried before all of them."""
MUTATIONS = [
    ("lanes.h", "for (; at < count; at++) part[0]", "for (; at + 1 < count; at++) part[0]"),
    ("lanes.h", "x = x < -87.0f ? -87.0f : x;", "x = x > -87.0f ? -87.0f : x;"),
    ("keys.h", "length < TINY ? TINY", "length > TINY ? TINY"),
    ("keys.h", "int better = found[lane] > best->score[lane]", "int better = found[lane] >= best->score[lane]"),
    ("keys.h", "&& column + lane < columns", "&& column + lane <= columns"),
    ("keys.h", "at = here < at ? here : at;", "at = here > at ? here : at;"),
    ("keys.h", "first + i < count ? first + i : count - 1", "first + i <= count ? first + i : count - 1"),
    ("order.h", "place += keys[j] < key;", "place += keys[j] > key;"),
    ("order.h", "if (value != value) return", "if (value == value) return"),
    ("order.h", "if (!gone[i]) *left++", "if (gone[i]) *left++"),
    ("room.h", "task < tasks; task += step", "task + 1 < tasks; task += step"),
    ("sides.h", "i < at->size_b; i++) at->side_b", "i + 1 < at->size_b; i++) at->side_b"),
    ("sides.h", "t < stay; t++, keep++", "t <= stay; t++, keep++"),
    ("signals.h", "variance <= floor * floor ? 0.0f", "variance >= floor * floor ? 0.0f"),
    ("signals.h", "spread > 1e-5f * fabsf(mean)", "spread < 1e-5f * fabsf(mean)"),
    ("signals.h", "total < TINY ? TINY : total", "total > TINY ? TINY : total"),
    ("softmax.h", "row[t + lane] > top[lane] ?", "row[t + lane] < top[lane] ?"),
    ("tome.c", "in.prefix > 0, &at", "in.prefix >= 0, &at"),
    ("tome.c", "t % 2 == first", "t % 2 != first"),
    ("pitome.c", "x > 0 ? x : low", "x < 0 ? x : low"),
    ("pitome.c", "at > row ? 1.0f", "at >= row ? 1.0f"),
    ("pitome.c", "column + LANES > count ||", "column + LANES < count ||"),
    ("catis.c", "<= in->tau) at->list", "< in->tau) at->list"),
    ("catis.c", "low < in->evictions", "low > in->evictions"),
    ("catis.c", "wanted < pool->size_a", "wanted > pool->size_a"),
    ("catis.c", "low >= in->n.gone - gone ? -in->tau", "low < in->n.gone - gone ? -in->tau"),
    ("catis.c", "fabsf(score) < INFINITY", "fabsf(score) > INFINITY"),
    ("received.c", "tokens - first < ROWS ?", "tokens - first > ROWS ?"),
    ("received.c", "first < tokens; first += HALVES", "first + 1 < tokens; first += HALVES"),
    ("mctf.c", "weight < TINY ? TINY", "weight > TINY ? TINY"),
    ("mctf.c", "base < TINY ? TINY", "base > TINY ? TINY"),
    ("mctf.c", "int better = row[lane] > best.score", "int better = row[lane] >= best.score"),
    ("mctf.c", "in->prefix > 0, sides->keys", "in->prefix >= 0, sides->keys"),
    ("merge.c", "if (in->target[t] >= 0) total", "if (in->target[t] > 0) total"),
    ("merge.c", "in->channels) - own[k]) * share", "in->channels) + own[k]) * share"),
    ("merge.c", "own > other ? own", "own < other ? own"),
    ("merge.c", "in->keep[k] < patches", "in->keep[k] <= patches"),
    ("merge.c", "in->target[t] >= -1", "in->target[t] >= -2"),
    ("merge.c", "sum < TINY ? TINY", "sum > TINY ? TINY"),
    ("fields.c", "fits &= size == *known;", "fits &= size >= *known;"),
    ("fields.c", "size == 1 || steps[i] == expected", "size == 1 || steps[i] >= expected"),
    ("fields.c", "if (flipped == Py_True) return", "if (flipped != Py_True) return"),
    ("fields.c", "extents[j].begin < extents[i].end", "extents[j].begin > extents[i].end"),
    ("module.c", "2 * r > in->n.patches", "2 * r >= in->n.patches"),
    ("module.c", "prefix >= n->tokens", "prefix > n->tokens"),
    ("module.c", "in->evictions > r)", "in->evictions >= r)"),
]


def build(native: Path) -> None:
    """Quickly: without the clones for newer processors."""
    command = ["cc", "-std=gnu11", "-O1", "-fPIC", "-shared", "-fopenmp", "-DCATIS_NO_CLONES"]
    include = f"-I{sysconfig.get_path('include')}"
    files = [str(path) for path in native.glob("*.c")]
    subprocess.run([*command, include, *files, "-o", str(native / "compiled.abi3.so"), "-lm"], check=True)


def fallen(folder: Path, first: str = "") -> str:
    """The first test that falls, or nothing; a crash is a fall too. In a child, which has imported all already."""
    log = folder / "log"
    child = os.fork()
    if child == 0:
        with log.open("w") as out, redirect_stdout(out), redirect_stderr(out):
            os.chdir(folder)
            chosen = "not warning and not cannot_be_done" + (f" and ({first})" if first else "")
            code = pytest.main(["-x", "-q", "-p", "no:cacheprovider", "-n", "0", *TESTS, "-k", chosen])
        os._exit(int(code))
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert code != pytest.ExitCode.NO_TESTS_COLLECTED, f"no test has a name with {first}"
    lines = [line.split(" ")[1] for line in log.read_text().splitlines() if line.startswith(("FAILED", "ERROR"))]
    return "" if code == 0 else (lines or [f"the interpreter ended with {code}"])[0]


def main() -> None:
    survived = []
    with tempfile.TemporaryDirectory() as where:
        folder = Path(where)
        for name in ("src", "tests", "hatch_build.py", "pyproject.toml"):
            (shutil.copytree if (ROOT / name).is_dir() else shutil.copy)(ROOT / name, folder / name)
        native = folder / "src/catis/native"
        os.environ["PYTHONPATH"] = str(folder / "src")
        sys.path[:0] = [str(folder / "src"), str(folder)]
        importlib.import_module("catis.native.accelerator")  # and with it PyTorch; C is loaded in the children only
        build(native)
        assert not fallen(folder), "the tests fall without any mutation"
        for file, old, new in MUTATIONS:
            if len(sys.argv) > 1 and file not in sys.argv[1:]:
                continue
            source = (native / file).read_text()
            assert source.count(old) == 1, f"{file}: {old!r} stands there {source.count(old)} times"
            (native / file).write_text(source.replace(old, new))
            build(native)
            test = (file in FIRST and fallen(folder, FIRST[file])) or fallen(folder)
            (native / file).write_text(source)
            print(f"{file}: {old}  ->  {new}: {test or 'NO TEST FELL'}", flush=True)
            survived += [] if test else [(file, new)]
    sys.exit(f"{len(survived)} survived" if survived else 0)


if __name__ == "__main__":
    main()
