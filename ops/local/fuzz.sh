#!/usr/bin/env bash
# Runs the fuzz targets with new seeds: `make fuzz`, or `make fuzz ARGS="--minutes 5"` with options of connect-fuzz.
#
# PostgreSQL and RabbitMQ are private ones in .run/test, or those of DATABASE_URL and AMQP_URL. connect-fuzz starts the
# programs itself.

set -euo pipefail

# shellcheck source-path=SCRIPTDIR
source "$(dirname "${BASH_SOURCE[0]}")/stack.sh"

DIRECTORY=$ROOT/.run/test
STEPS=4
acquire_lock "$DIRECTORY" -n || { say "\`make test\` is running here, waiting for it" && acquire_lock "$DIRECTORY"; }
start_servers "$DIRECTORY"

step 'building'
cargo build --workspace --bins 9>&-
step 'fuzzing'
"$TARGET/debug/connect-fuzz" "$@" 9>&-
