#!/usr/bin/env bash
# Redraws ../connect.svg: runs traffic of every kind on a release build for nine minutes, three of them without a worker,
# scrapes it with Prometheus, and draws the data. `run.sh 3` takes three minutes.
#
# PostgreSQL and RabbitMQ are private ones in .run/picture, or those of DATABASE_URL and AMQP_URL.

set -euo pipefail

# shellcheck source-path=SCRIPTDIR
source "$(dirname "${BASH_SOURCE[0]}")/../../local/stack.sh"

DIRECTORY=$ROOT/.run/picture
STEPS=4
acquire_lock "$DIRECTORY" -n || fail "another run of this script is drawing the picture"
start_servers "$DIRECTORY" postgres rabbitmq tools checks

step 'building'
cargo build --release --workspace --bins 9>&-
step 'running, for a quarter of an hour at most'
"$TARGET/release/connect-picture" "$@" >"$DIRECTORY/connect.svg" 9>&-
mv "$DIRECTORY/connect.svg" "$ROOT/ops/grafana/connect.svg"
say 'drawn: ops/grafana/connect.svg'
