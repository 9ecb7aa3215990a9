#!/bin/sh
# Wait for a run to end, then start the next: training/chain.sh tiny-6 tiny-12 --grow tiny-6 --steps 700
after=$1; shift
while [ ! -e "/var/tmp/catis-train/$after.final.safetensors" ]; do sleep 2; done
exec "$(dirname "$0")/run.sh" "$@"
