#!/usr/bin/env bash
# Installs catis in every way that a machine may need, each into an environment of its own, and runs a reduced model there.
#   tests/install.sh                  the Python that has catis' dependencies must be `python3`; needs `build`, `auditwheel`
# Proved: sdist and wheel are built; the wheel has the compiled functions, and its manylinux tag is true; a wheel runs them
# on a machine without a compiler; the sdist installs there too, and where $CC fails, and then PyTorch does all.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m build --outdir "$folder/dist" . >"$folder/build.log" 2>&1 || { cat "$folder/build.log"; exit 1; }
wheel=$(echo "$folder"/dist/*.whl)
sdist=$(echo "$folder"/dist/*.tar.gz)
python3 -m zipfile -l "$wheel" | grep -q 'catis/native/compiled.abi3.so'
echo "wheel: ${wheel##*/}, with the compiled functions"

# auditwheel looks at the symbols. libgomp is PyTorch's, so it stays outside: see hatch_build.py.
tag=${wheel##*-}
python3 -m auditwheel repair --exclude libgomp.so.1 --plat "${tag%.whl}" --wheel-dir "$folder/repaired" "$wheel" \
    >"$folder/audit.log" 2>&1 || { cat "$folder/audit.log"; exit 1; }
echo "auditwheel: ${tag%.whl} is true, libgomp left to PyTorch"

# What catis needs is lent from this Python; a path in a .pth file brings no editable install of catis with it.
lent=$(python3 -c 'import os, torch; print(os.path.dirname(os.path.dirname(torch.__file__)))')
mkdir "$folder/nothing"
cat >"$folder/check.py" <<'PYTHON'
import sys

import timm
import torch

import catis
from catis.native.accelerator import accelerator_for

assert sys.prefix in catis.__file__, catis.__file__
model = catis.apply(timm.create_model("test_vit").eval(), "catis", r=8)
assert model(torch.zeros(1, 3, 160, 160)).isfinite().all()
compiled = accelerator_for(torch.zeros(1)) is not None
assert compiled == (sys.argv[1] == "compiled"), f"compiled functions: {compiled}"
with open("/proc/self/maps") as maps:
    homes = {line.split()[-1] for line in maps if "libgomp" in line}
assert len(homes) <= 1, f"two thread pools: {homes}"
PYTHON

try() { # NAME, what is installed, "compiled" or "PyTorch", further environment
    local name=$1 what=$2 expected=$3
    shift 3
    python3 -m venv "$folder/$name"
    echo "$lent" >"$folder/$name/lib/$(ls "$folder/$name/lib")/site-packages/lent.pth"
    env "$@" "$folder/$name/bin/python" -m pip install --quiet --no-deps --no-index --no-build-isolation "$what" \
        >"$folder/$name.log" 2>&1 || { cat "$folder/$name.log"; exit 1; }
    (cd "$folder" && env "$@" "$folder/$name/bin/python" check.py "$expected")
    echo "$name: installed and run, by $expected"
}

try wheel-without-compiler "$wheel" compiled PATH="$folder/nothing"
try sdist "$sdist" compiled
try sdist-without-compiler "$sdist" PyTorch PATH="$folder/nothing"
try sdist-with-broken-compiler "$sdist" PyTorch CC=false
