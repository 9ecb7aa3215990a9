#!/usr/bin/env bash
# Runs the quick tests in an environment of its own, with the lowest or the newest versions that pyproject.toml allows.
#   tests/versions.sh lowest                   what pyproject.toml calls the lowest, on this Python
#   tests/versions.sh newest python3.13        the newest there is, on another Python
#   FOLDER=/somewhere tests/versions.sh lowest keep the environment (some 8 GB) there; without it, it goes afterwards
#   WORKERS=1 tests/versions.sh lowest         one process of tests in place of two
# The environment is made by uv, which alone can take lowest versions; downloads of PyTorch take minutes.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

case "${1:-}" in
lowest) resolution=lowest-direct ;; # what catis names itself; what that needs in turn may be newer
newest) resolution=highest ;;
*) sed -n '2,7s/^# //p' "${BASH_SOURCE[0]}" && exit 2 ;;
esac
python=${2:-python3}

folder=${FOLDER:-$(mktemp -d)}
[[ -n "${FOLDER:-}" ]] || trap 'rm -rf "$folder"' EXIT
mkdir -p "$folder"
[[ -x "$folder/tools/bin/uv" ]] || "$python" -m venv "$folder/tools"
"$folder/tools/bin/python" -m pip install --quiet uv
export UV_CACHE_DIR="$folder/cache"
uv="$folder/tools/bin/uv"

"$uv" venv --quiet --clear --python "$python" "$folder/venv"
# In two steps: installed as `.[test]`, what catis names itself would not count as direct.
"$uv" pip compile --quiet --python "$folder/venv" --resolution "$resolution" --extra test pyproject.toml \
    --output-file "$folder/requirements.txt" >"$folder/compile.log"
"$uv" pip install --quiet --python "$folder/venv" -r "$folder/requirements.txt" setuptools # for torch.compile
"$uv" pip install --quiet --python "$folder/venv" --no-deps .
"$uv" pip list --quiet --python "$folder/venv" |
    grep -iE '^(torch|timm|transformers|numpy|scipy|typer|rich|safetensors|pillow|onnx|onnxruntime|onnxscript|av) '

# From outside the checkout, so that what is installed is what is tested; style and C sources are not in it.
rm -rf "$folder/tests" "$folder/examples"
cp -r tests examples hatch_build.py pyproject.toml "$folder"
trap 'rm -rf "$folder/tests" "$folder/examples"; [[ -n "${FOLDER:-}" ]] || rm -rf "$folder"' EXIT
cd "$folder"
HF_HUB_OFFLINE=1 "$folder/venv/bin/python" -m pytest -q -m 'not slow and not assets' -n "${WORKERS:-2}" \
    --ignore tests/core/test_compilers.py tests/core tests/golden tests/hosts tests/calibration tests/tuning \
    tests/diagnostics tests/data tests/evaluate tests/report tests/export \
    tests/test_cli.py tests/test_cli_wrong_values.py tests/test_recipes.py
