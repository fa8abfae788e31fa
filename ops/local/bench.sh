#!/usr/bin/env bash
# Measures a release build under load: `make bench`, or `make bench ARGS="batches single"` with sections and options of
# connect-bench; with --document it writes docs/capacity.md.
#
# PostgreSQL and RabbitMQ are private ones in .run/bench, with durable settings, or those of DATABASE_URL and
# AMQP_URL. connect-bench starts the programs itself.

set -euo pipefail

# shellcheck source-path=SCRIPTDIR
source "$(dirname "${BASH_SOURCE[0]}")/stack.sh"

DIRECTORY=$ROOT/.run/bench
STEPS=4
acquire_lock "$DIRECTORY" -n || fail "another \`make bench\` is running here; two at once would distort the figures"
start_servers "$DIRECTORY"

step 'building'
cargo build --release --workspace --bins 9>&-
step 'measuring, which takes several minutes'
"$TARGET/release/connect-bench" "$@" 9>&-
