#!/usr/bin/env bash
# Makes ../connect.svg anew: traffic of every kind on a release build for nine minutes, for three of them without a
# worker, watched by a Prometheus whose data is then drawn. `run.sh 3` takes three minutes.
#
# PostgreSQL and RabbitMQ are private ones in .run/picture, or those of DATABASE_URL and AMQP_URL.

set -euo pipefail

# shellcheck source-path=SCRIPTDIR
source "$(dirname "${BASH_SOURCE[0]}")/../../local/stack.sh"

DIRECTORY=$ROOT/.run/picture
STEPS=4
hold "$DIRECTORY" -n || fail "another picture is being made here"
bring_up "$DIRECTORY" postgres rabbitmq tools checks

step 'building'
cargo build --release --workspace --bins 9>&-
step 'running, for a quarter of an hour at most'
"$TARGET/release/connect-picture" "$@" >"$DIRECTORY/connect.svg" 9>&-
mv "$DIRECTORY/connect.svg" "$ROOT/ops/grafana/connect.svg"
say 'drawn: ops/grafana/connect.svg'
