#!/bin/sh
# Start one training run in the background: training/run.sh tiny-6 --steps 3400
# glibc gives big buffers back to the kernel after every use; keeping them is worth a third of the speed.
export MALLOC_MMAP_THRESHOLD_=4294967296 MALLOC_TRIM_THRESHOLD_=8589934592 MALLOC_TOP_PAD_=268435456
# Muon multiplies in bfloat16; this machine advertises AMX but faults on it, so keep oneDNN to AVX-512.
export ONEDNN_MAX_CPU_ISA="${ONEDNN_MAX_CPU_ISA:-AVX512_CORE_BF16}"
export OMP_NUM_THREADS="${OMP_NUM_THREADS:-2}"
# Waiting threads sleep instead of spinning: on a shared machine spinning starves the thread that has the work.
export OMP_WAIT_POLICY=passive
here=$(dirname "$0")
state=/var/tmp/catis-train
PYTHONPATH="$here/../src" nohup setsid nice -n 10 "${PYTHON:-/opt/venv/bin/python}" "$here/train_zoo.py" "$@" \
    >>"$state/$1.out" 2>&1 &
echo $! >"$state/$1.pid"
