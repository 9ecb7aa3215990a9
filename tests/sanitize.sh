#!/usr/bin/env bash
# Builds the compiled functions with AddressSanitizer and UBSan, and calls them with everything that could break them.
#   tests/sanitize.sh                 the Python that has catis' dependencies must be `python3`
#   tests/sanitize.sh --rounds 20000 --seed 1
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

fresh=$(mktemp -d)
trap 'rm -rf "$fresh"' EXIT
cp -r src tests "$fresh"
native="$fresh/src/catis/native"
rm -f "$native"/*.so

include=$(python3 -c 'import sysconfig; print(sysconfig.get_path("include"))')
# Without clones: the loader would pick one before the sanitizer is ready. Plain loads, so that every byte is watched.
gcc -std=gnu11 -O1 -g -fno-omit-frame-pointer -fPIC -shared -fvisibility=hidden -fopenmp -DCATIS_NO_CLONES \
    -fsanitize=address,undefined -fno-sanitize-recover=undefined -Wall -Wextra \
    "-I$include" "$native"/*.c -o "$native/compiled.abi3.so" -lm

# Leaks are Python's and PyTorch's own; a hang (a fork that waits for threads) must end.
LD_PRELOAD="$(gcc -print-file-name=libasan.so) $(gcc -print-file-name=libubsan.so)" \
    ASAN_OPTIONS=detect_leaks=0:allocator_may_return_null=1 UBSAN_OPTIONS=print_stacktrace=1 \
    PYTHONPATH="$fresh/src" CATIS_NATIVE=1 timeout "${TIMEOUT:-3000}" python3 "$fresh/tests/fuzz_native.py" "$@"
