#!/usr/bin/env bash
# Runs the system under faults: `make torture`, or `make torture ARGS="--minutes 10 --seed 7"` with options of connect-torture.
#
# connect-torture starts programs and servers of its own. As root it gives the servers small file systems, so that disks can be
# full; otherwise these faults are left out.

set -euo pipefail

# shellcheck source-path=SCRIPTDIR
source "$(dirname "${BASH_SOURCE[0]}")/stack.sh"

STEPS=3
step 'installing what is missing'
"$SERVICES" install
use_cargo
# Programs need a file descriptor for each connection; the usual limit is 1,024.
ulimit -Sn "$(ulimit -Hn)" 2>/dev/null || true
export CONNECT_SERVICES=$SERVICES
step 'building'
cargo build --workspace --bins
step 'running'
"$TARGET/debug/connect-torture" "$@"
